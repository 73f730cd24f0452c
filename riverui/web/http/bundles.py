"""The style sheet and the script, each built from many files into the one that browsers load.

An entry names its parts by the language's own `@import` or `import`, so that the files also work in
a browser unbundled. One request each makes the first page fastest, and needs no build step.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

ENTRIES = {"app.css": "css/app.css", "app.js": "js/app.js"}
"""The entry file of each bundle, by the bundle's path below static/."""

_CSS_IMPORT = re.compile(r'^@import "(\./[a-z-]+\.css)";\n', re.MULTILINE)
_JS_IMPORT = re.compile(
    r'^import (?:\{\s*\w+(?:,\s*\w+)*\s*\} from )?"(\./[a-z-]+\.js)";\n', re.MULTILINE
)
_JS_EXPORT = re.compile(r"^export (?=(?:async )?function |const |let |class )", re.MULTILINE)
_JS_NAME = re.compile(r"^(?:async )?(?:function|const|let|class)\*? (\w+)", re.MULTILINE)
_LEFT_OVER = re.compile(r"^(?:@import|import|export|var|const [{\[]|let [{\[]).*", re.MULTILINE)
"""Syntax that would change its meaning in a bundle."""


class BundleError(ValueError):
    """The files of a bundle cannot be combined."""


def bundle(files: Mapping[str, bytes], entry: str) -> bytes:
    """Return the entry and all that it imports as one file, each part before its users.

    Raise BundleError for a missing or cyclic part, for a name that two parts declare, and for forms
    of import and export that are not supported.
    """
    imports = _CSS_IMPORT if entry.endswith(".css") else _JS_IMPORT
    parts: dict[str, str] = {}
    _collect(files, entry, imports, parts, ())
    declared: dict[str, str] = {}
    for path, text in parts.items():
        for name in _JS_NAME.findall(text) if entry.endswith(".js") else ():
            if name in declared:
                raise BundleError(f"{declared[name]} and {path} both declare {name}")
            declared[name] = path
    return "\n".join(parts.values()).encode()


def _collect(
    files: Mapping[str, bytes],
    path: str,
    imports: re.Pattern[str],
    parts: dict[str, str],
    above: tuple[str, ...],
) -> None:
    """Append a file to the parts, after those that it imports."""
    if path in above:
        raise BundleError(f"{path} imports itself: {' → '.join((*above, path))}")
    if path in parts:
        return
    if path not in files:
        raise BundleError(f"{above[-1] if above else 'a bundle'} needs {path}, which is missing")
    text = files[path].decode()
    for needed in imports.findall(text):
        found = posixpath.normpath(posixpath.join(posixpath.dirname(path), needed))
        _collect(files, found, imports, parts, (*above, path))
    text = _JS_EXPORT.sub("", imports.sub("", text))
    if strange := _LEFT_OVER.search(text):
        raise BundleError(f"{path}: cannot put into one file: {strange[0]}")
    parts[path] = text
