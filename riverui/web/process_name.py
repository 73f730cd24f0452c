"""By which name one process of the dashboard is known to the others."""

from __future__ import annotations

import os
import secrets
import socket

_HOST = 30
"""Characters of the host's name, so that the whole fits into an `application_name`."""


def process_name() -> str:
    """Return host, process id and six random digits, which tell processes apart that share both
    (containers may).
    """
    return f"{socket.gethostname()[:_HOST]}:{os.getpid()}:{secrets.token_hex(3)}"
