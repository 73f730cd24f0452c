"""Where templates/ and static/ lie, and what each static file's content hash is."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def _locate(name: str) -> Path:
    """The folder inside the installed wheel, or beside the package in a checkout."""
    # The wheel's place comes first: site-packages may hold some other project's `templates`.
    for parent in (_PACKAGE / "_assets", _PACKAGE.parent):
        if (folder := parent / name).is_dir():
            return folder
    raise FileNotFoundError(f"riverui was installed without its {name}/ folder")


TEMPLATES = _locate("templates")
STATIC = _locate("static")


@cache
def static_hash(path: str) -> str:
    """First 12 hex digits of the SHA-256 of `static/<path>`; FileNotFoundError where there is
    none.
    """
    return hashlib.sha256((STATIC / path).read_bytes()).hexdigest()[:12]
