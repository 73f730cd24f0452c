"""`python -m examples.orchestrator`: serves on http://localhost:8000, the dashboard on
river.localhost.
"""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import uvicorn

from examples.orchestrator.app import HTPASSWD, Settings, orchestrator
from riverui.demo.postgres import EmbeddedPostgres

log = logging.getLogger("orchestrator")


def main() -> None:
    """Run until Ctrl-C or SIGTERM; without DATABASE_URL on a Postgres of its own, gone at the
    end.
    """
    # SIGTERM unwinds as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    with ExitStack() as stack:
        settings = Settings(
            database_url=os.environ.get("DATABASE_URL") or stack.enter_context(_postgres()),
            dashboard_host=os.environ.get("RIVERUI_HOST", "river.localhost"),
            htpasswd=Path(os.environ.get("RIVERUI_HTPASSWD_FILE", HTPASSWD)),
            soft_stop=timedelta(seconds=float(os.environ.get("SOFT_STOP_SECONDS", "20"))),
            classifier_seconds=float(os.environ.get("CLASSIFIER_SECONDS", "0.05")),
        )
        port = int(os.environ.get("PORT", "8000"))
        log.info(
            "the dashboard: http://%s:%s/ (user ops, password river)", settings.dashboard_host, port
        )
        uvicorn.run(orchestrator(settings), port=port, log_config=None, timeout_graceful_shutdown=5)


@contextmanager
def _postgres() -> Iterator[str]:
    with EmbeddedPostgres(None, durable=False) as postgres:
        yield postgres.url


if __name__ == "__main__":
    main()
