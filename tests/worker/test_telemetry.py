"""The example for OpenTelemetry, run as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.worker.conftest import HERE, StartWorker

INSERT = """
import asyncio

import traced

async def main():
    with traced.trace.get_tracer("web").start_as_current_span("request"):
        await traced.client.insert(traced.Welcome(to="ann@example.com"))
    await traced.client.stop()
    traced.provider.shutdown()

asyncio.run(main())
"""


def test_a_trace_goes_on_from_the_insert_to_the_work(
    start_worker: StartWorker, database_url: str, tmp_path: Path
) -> None:
    document = (HERE.parents[1] / "docs/operate/worker-processes.md").read_text()
    (code,) = re.findall(r"```python\n(# traced.py\n.*?)```", document, re.DOTALL)
    (tmp_path / "traced.py").write_text(code)
    with start_worker("traced:client", "--processes", "2", folder=tmp_path) as worker:
        inserted = subprocess.run(
            [sys.executable, "-c", INSERT],
            cwd=tmp_path,
            env={**os.environ, "DATABASE_URL": database_url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert inserted.returncode == 0, inserted.stderr
        (insert,) = re.findall(
            r'"name": "river.insert_many",\s+"context": \{\s+"trace_id": "(\w+)",'
            r'\s+"span_id": "(\w+)"',
            inserted.stdout,
        )
        worker.until(1, "completed")
        # What is left of spans is told as the processes end.
        assert worker.stop() == 0
    told = "".join(worker.lines)
    (link,) = re.findall(
        r'"name": "river.work".*?"links": \[\s+\{\s+"context": \{\s+"trace_id": "(\w+)",'
        r'\s+"span_id": "(\w+)"',
        told,
        re.DOTALL,
    )
    assert link == insert
    assert '"service.name": "mailer"' in told
