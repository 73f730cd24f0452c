"""Which process the figures are of, where several answer on one port."""

from __future__ import annotations

import re

_OWN = re.compile(rb"^(riverui_(?:info|request_seconds|database_seconds)(?:_\w+)?)\{", re.MULTILINE)
"""Samples of this process; all others are of the database, whoever tells them."""


def labelled(text: bytes, process: str) -> bytes:
    """Return Prometheus's text with the label `process` on each sample of this process.

    A scraper meets now one process, now another: with the label, the counters of each are a series
    of their own, which only grows.
    """
    quoted = process.replace("\\", r"\\").replace('"', r"\"").encode()
    return _OWN.sub(rb'\1{process="' + quoted.replace(b"\\", rb"\\") + b'",', text)
