"""`python -m examples.documents`: serves on http://localhost:8000, the dashboard under /riverui."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
from contextlib import ExitStack
from dataclasses import replace

import uvicorn

from examples.documents.app import documents
from examples.documents.config import Settings
from riverui.demo.postgres import EmbeddedPostgres

log = logging.getLogger("documents")


def main() -> None:
    """Run until Ctrl-C or SIGTERM. Without DATABASE_URL, start a temporary Postgres, with an inbox
    and 4,000 files.
    """
    # SIGTERM stops it as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    port = int(os.environ.get("PORT", "8000"))
    settings = Settings.read(os.environ)
    with ExitStack() as stack:
        if not settings.database_url:
            url = stack.enter_context(EmbeddedPostgres(None, durable=False)).url
            inbox = settings.inbox or stack.enter_context(tempfile.TemporaryDirectory())
            files = settings.first_files if "FIRST_FILES" in os.environ else 4000
            settings = replace(settings, database_url=url, inbox=inbox, first_files=files)
            log.info("for another replica: DATABASE_URL='%s' PORT=%s", url, port + 1)
        log.info("the dashboard: http://localhost:%s/riverui/ (user ops, password river)", port)
        log.info("the inbox: %s", settings.inbox or "none")
        log_level = "warning"  # requests are not logged
        uvicorn.run(
            documents(settings), port=port, log_level=log_level, timeout_graceful_shutdown=2
        )


if __name__ == "__main__":
    main()
