"""Locate templates/ and static/."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]


def _locate(name: str) -> Path:
    """Return the folder inside the installed wheel, or beside the package in a checkout."""
    # The wheel's folder comes first: site-packages may hold another project's `templates`.
    for parent in (_PACKAGE / "_assets", _PACKAGE.parent):
        if (folder := parent / name).is_dir():
            return folder
    raise FileNotFoundError(f"riverui was installed without its {name}/ folder")


TEMPLATES = _locate("templates")
STATIC = _locate("static")
