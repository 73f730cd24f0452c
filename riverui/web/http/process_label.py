"""Label metrics with their process, if several answer on one port."""

from __future__ import annotations

import re

_OWN = re.compile(rb"^(riverui_(?:info|request_seconds|database_seconds)(?:_\w+)?)\{", re.MULTILINE)
"""Metrics of this process; all others are of the database and the same in each process."""


def labelled(text: bytes, process: str) -> bytes:
    """Return Prometheus's text with the label `process` on each sample of this process.

    Each scrape reaches any one of the processes: with the label, the counters of each are a series
    of their own, which only grows.
    """
    quoted = process.replace("\\", r"\\").replace('"', r"\"").encode()
    return _OWN.sub(rb'\1{process="' + quoted.replace(b"\\", rb"\\") + b'",', text)
