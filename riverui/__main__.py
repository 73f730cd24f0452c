"""`python -m riverui` is `riverui`."""

from __future__ import annotations

from riverui.cli.main import main

if __name__ == "__main__":
    main()
