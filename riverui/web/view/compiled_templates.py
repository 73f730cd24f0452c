"""Cache compiled templates in files, as Python does for modules: compiling those of one page takes
longer than the rest of its first request.
"""

from __future__ import annotations

import pickle
import sys
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

from riverui import __version__


class CompiledTemplates(FileSystemBytecodeCache):
    """Stores compiled templates in `__pycache__` of the templates' folder, or below
    PYTHONPYCACHEPREFIX.

    A file is valid for one text, one version of Python and one of riverui. If the folder is not
    writable, each process compiles the templates.
    """

    def __init__(self, templates: Path) -> None:
        folder = Path(cache_from_source(str(templates / "templates.py"))).parent
        made_by = f"riverui-{__version__}.{sys.implementation.cache_tag}"
        super().__init__(str(folder), f"%s.{made_by}.jinja")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill the bucket, unless the file is missing, outdated or damaged."""
        with suppress(OSError, EOFError, pickle.UnpicklingError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Write the file, if PYTHONDONTWRITEBYTECODE is not set and the folder is writable."""
        if sys.dont_write_bytecode:
            return
        with suppress(OSError):
            Path(self.directory).mkdir(parents=True, exist_ok=True)
            super().dump_bytecode(bucket)
