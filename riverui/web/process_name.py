"""The name by which the dashboards of a database know a process."""

from __future__ import annotations

import os
import secrets
import socket

_HOST = 30
"""Characters of the host name, so that the whole fits into an `application_name`."""


def process_name() -> str:
    """Return host, process id and six random digits, for processes that share both
    (containers may).
    """
    return f"{socket.gethostname()[:_HOST]}:{os.getpid()}:{secrets.token_hex(3)}"
