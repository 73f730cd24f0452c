"""`python -m tests.screens`: photographs the demo's pages, light, dark and on a phone, into
docs/screens.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, ViewportSize, async_playwright

FOLDER = Path(__file__).parent.parent / "docs/screens"
WIDE = ViewportSize(width=1280, height=800)
PHONE = ViewportSize(width=360, height=740)
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
FIRST_JOB = "a[href*='/jobs/']:not([href*='/bulk'])"

SCREENS = {
    "overview": "",
    "jobs": "jobs",
    "jobs-running": "jobs?state=running",
    "jobs-retryable": "jobs?state=retryable",
    "jobs-search": "jobs?q=kind:webhook_delivery args.customer.id:42 -tag:vip",
    "jobs-empty": "jobs?q=kind:no_such_kind",
    "jobs-problem": "jobs?q=priority:high",
    "jobs-bulk": "jobs/bulk?verb=retry&state=discarded",
    "job-running": "jobs?q=kind:video_transcode&state=running&order=-time",
    "job-failed": "jobs?q=kind:image_resize&state=discarded",
    "job-completed": "jobs?q=kind:payment_capture&state=completed",
    "queues": "queues",
    "queue": "queues/webhooks",
    "workers": "workers",
    "operations": "operations",
    "about": "about",
    "help": "help",
    "not-found": "jobs/1",
}
"""File name and address; where the name begins with `job-`, the first job of that list is opened.
"""

INCIDENTS = ("bad-deploy", "dead-worker", "slow-dependency")
"""Those whose front page the documentation shows, each played by a demo of its own."""
SHOWN = (
    "bad-deploy-dark",
    "bad-deploy-light",
    "dead-worker-light",
    "job-failed-light",
    "job-failed-light-phone",
    "jobs-dark",
    "jobs-light",
    "slow-dependency-light",
)
"""The pictures that README and documentation show."""
_OPENED = 120_000
"""Milliseconds until an incident has opened, on a busy machine: two looks that agree are enough."""


@contextmanager
def demo(incident: str = "") -> Iterator[str]:
    """Yield the address of a fresh demo, which plays an incident where one is named."""
    with tempfile.TemporaryDirectory() as folder:
        # Root runs Postgres as nobody, who must be able to pass through.
        Path(folder).chmod(0o711)
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "riverui",
                "demo",
                "--port",
                "0",
                "--data-dir",
                f"{folder}/data",
                *(["--incident", incident] if incident else []),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if found := re.search(r"http://\S+", line):
                    yield found[0]
                    return
            raise SystemExit("the demo did not start")
        finally:
            process.terminate()
            process.communicate(timeout=30)


async def photograph(page: Page, url: str, name: str, path: Path) -> None:
    """Save a picture of one page, as much of it as a screen shows."""
    await open_screen(page, url, name)
    taken = await page.screenshot(path=path, animations="disabled")
    print(f"{path}  {len(taken) // 1000} kB")


async def open_screen(page: Page, url: str, name: str) -> None:
    """Show one page, once it has all it fetches."""
    await page.goto(url + SCREENS.get(name, ""))
    if name.startswith("job-"):
        link = await page.locator("#jobs-list").locator(FIRST_JOB).first.get_attribute("href")
        await page.goto(f"{url.rstrip('/')}{link}")
    await page.locator("main").wait_for()
    # Counts and the first live refresh.
    await page.wait_for_timeout(700)


async def main() -> None:
    """Take the pictures that the documentation shows, all there are, or those whose names are
    given.
    """
    parser = argparse.ArgumentParser(prog="python -m tests.screens", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"of {', '.join((*SCREENS, *INCIDENTS))}")
    parser.add_argument("--all", action="store_true", help="every page there is")
    parser.add_argument("--to", type=Path, default=FOLDER, help="folder (docs/screens)")
    parser.add_argument("--url", help="of a running dashboard, instead of a demo started for this")
    parser.add_argument(
        "--wait", type=float, default=20, help="seconds to let the demo move (%(default)s)"
    )
    arguments = parser.parse_args()
    names = arguments.names or [*SCREENS, *INCIDENTS]
    chosen = None if arguments.names or arguments.all else SHOWN
    if chosen:
        names = [name for name in names if any(_of(name, picture) for picture in chosen)]
    if unknown := set(names) - {*SCREENS, *INCIDENTS}:
        raise SystemExit(f"there is no {', '.join(unknown)}")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("Chromium is missing: apt-get install chromium")
    arguments.to.mkdir(parents=True, exist_ok=True)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        if pages := [name for name in names if name in SCREENS]:
            with nullcontext(arguments.url) if arguments.url else demo() as url:
                await asyncio.sleep(arguments.wait)
                await take(browser, url, pages, arguments.to, chosen)
        for name in names:
            if name in INCIDENTS:
                with demo(name) as url:
                    page = await browser.new_page()
                    await page.goto(url)
                    await page.locator("main a[href*='/incidents/']").first.wait_for(
                        timeout=_OPENED
                    )
                    await page.close()
                    await take(browser, url, [name], arguments.to, chosen)
        await browser.close()


def _of(name: str, picture: str) -> bool:
    """Return whether that is a picture of this page."""
    return re.fullmatch(f"{name}-({'|'.join(THEMES)})(-phone)?", picture) is not None


async def take(
    browser: Browser, url: str, names: Sequence[str], folder: Path, chosen: Sequence[str] | None
) -> None:
    """Save pictures of pages in all forms, or only those chosen."""
    for theme, phone in itertools.product(THEMES, (False, True)):
        context = await browser.new_context(
            color_scheme=theme,
            has_touch=phone,
            locale="en-GB",
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
            viewport=PHONE if phone else WIDE,
        )
        page = await context.new_page()
        for name in names:
            picture = f"{name}-{theme}{'-phone' if phone else ''}"
            if chosen is None or picture in chosen:
                await photograph(page, url, name, folder / f"{picture}.png")
        await context.close()


if __name__ == "__main__":
    asyncio.run(main())
