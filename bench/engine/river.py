"""The real Go River: `river bench` as it is, and an idle Go client."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from bench.engine.drain import Drain

_TOTAL = re.compile(r"total jobs worked \[ +(\d+) \].*overall job/sec \[ +([\d.]+) \]")


def burn_down(binary: Path, url: str, jobs: int) -> Drain:
    """Run `river bench -n`: it inserts first, then works; timed from its client's start to the last
    job.
    """
    return _bench(binary, url, "-n", str(jobs))


def continuous(binary: Path, url: str, seconds: int) -> Drain:
    """Run `river bench --duration`: the same process inserts meanwhile, to keep 75,000 jobs
    waiting.
    """
    return _bench(binary, url, "--duration", f"{seconds}s")


def _bench(binary: Path, url: str, *arguments: str) -> Drain:
    done = subprocess.run(
        [binary, "bench", "--database-url", url, *arguments],
        capture_output=True,
        check=True,
        text=True,
        timeout=300,
    )
    if not (total := _TOTAL.search(done.stdout)):
        raise SystemExit(f"river bench said:\n{done.stdout}{done.stderr}")
    jobs = int(total[1])
    return Drain(jobs=jobs, working=jobs / float(total[2]))
