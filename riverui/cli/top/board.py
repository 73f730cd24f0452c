"""What the keys of `riverui top` do, and what is asked of the API meanwhile."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.queues import PAUSE, QUEUE_VERBS, RESUME
from riverui.cli.api.answers import Api
from riverui.cli.job.show import job_lines, why_waiting
from riverui.cli.job.verbs import Told
from riverui.cli.job.wanted import search_text
from riverui.cli.terminal import Screen, one_line
from riverui.cli.top.frame import FOUND, HELP, SECTIONS, View, frame, row_key
from riverui.cli.top.tty import Terminal
from riverui.errors import RiveruiError

_FOUND = 100
"""Jobs that a search shows: some screens full."""
_MESSAGE_SECONDS = 6.0
"""Seconds that it is told what was done: long enough to read a line."""
_STOP_SECONDS = 0.5
"""Seconds that what is under way may take at the end: whoever quits does not want to wait."""
_LONGEST = 1_000
"""Characters of a search that is typed: as many as the grammar takes."""
_PAGE = 10
"""Lines that a page key moves."""

_FIGURES_SECONDS = 10.0
"""Seconds that reading the last hour may take for a single frame; without some of it, that is told.
"""

Change = Callable[[View], None]


class Asker:
    """Asks the API in a thread of its own, one thing after the other, so that keys never wait."""

    def __init__(self, api: Api, interval: float, wake: Callable[[], None]) -> None:
        self._api = api
        self._interval = interval
        self._tasks: queue.SimpleQueue[Callable[[Api], Change] | None] = queue.SimpleQueue()
        self._changes: queue.SimpleQueue[Change] = queue.SimpleQueue()
        self._wake = wake
        self._thread = threading.Thread(target=self._run, name="top", daemon=True)

    def start(self) -> None:
        """Begin to read the overview, again and again."""
        self._thread.start()

    def stop(self) -> None:
        """End after what is under way; what hangs is left behind, and ends with the process."""
        self._tasks.put(None)
        self._thread.join(_STOP_SECONDS)

    def ask(self, task: Callable[[Api], Change]) -> None:
        """Do something soon, and read the overview anew after it."""
        self._tasks.put(task)

    def changes(self) -> Sequence[Change]:
        """Return what has come in since."""
        found: list[Change] = []
        with suppress(queue.Empty):
            while True:
                found.append(self._changes.get_nowait())
        return found

    def _run(self) -> None:
        due = time.monotonic()
        while True:
            try:
                task = self._tasks.get(timeout=max(due - time.monotonic(), 0.0))
            except queue.Empty:
                self._do(overview)
                due = time.monotonic() + self._interval
                continue
            if task is None:
                return
            self._do(task)
            due = time.monotonic()

    def _do(self, task: Callable[[Api], Change]) -> None:
        try:
            change = task(self._api)
        except RiveruiError as error:
            change = _trouble(str(error)) if task is overview else _message(str(error))
        except Exception as error:
            change = _raise(error)
        self._changes.put(change)
        self._wake()


def overview(api: Api) -> Change:
    """Read the overview."""
    told = api.get("/api/overview")

    def change(view: View) -> None:
        view.overview, view.trouble = told, ""

    return change


class Board:
    """What is shown, and what the keys do to it."""

    def __init__(self, view: View, screen: Screen, ask: Callable[[Callable[[Api], Change]], None]):
        self.view = view
        self._ask = ask
        self._screen = screen
        self._agreed: Callable[[], None] | None = None
        """What is done when the question is answered with yes."""
        self._message_until = 0.0

    def run(self, terminal: Terminal, asker: Asker) -> None:
        """Show frames and do what keys say, until one of them says to quit."""
        while True:
            width, height = terminal.size()
            screen = Screen(colors=self._screen.colors, width=width)
            terminal.show(frame(self.view, screen, height=height))
            rest = self._message_until - time.monotonic()
            keys = terminal.wait(rest if self.view.message and rest > 0 else 60.0)
            if self.view.message and time.monotonic() >= self._message_until:
                self.view.message = ""
            for change in asker.changes():
                before = self.view.message
                change(self.view)
                if self.view.message != before:
                    self._message_until = time.monotonic() + _MESSAGE_SECONDS
            for key in keys:
                if not self.press(key):
                    return

    def press(self, key: str) -> bool:
        """Do what a key says; return False where it says to quit."""
        view = self.view
        if view.prompt is not None:
            self._type(key)
        elif view.question:
            agreed, self._agreed, view.question = self._agreed, None, ""
            if key in ("y", "Y") and agreed is not None:
                agreed()
        elif key == "q":
            return False
        else:
            view.message = ""
            self._do(key)
        return True

    def _do(self, key: str) -> None:
        view = self.view
        moves = {"down": 1, "j": 1, "up": -1, "k": -1, "page down": _PAGE, "page up": -_PAGE}
        if key in moves:
            self._move(moves[key])
        elif key in ("home", "end"):
            self._move(-(10**6) if key == "home" else 10**6)
        elif key == "esc":
            self._back()
        elif key == "?":
            view.lines, view.shown, view.scroll = HELP, "", 0
        elif key == "/":
            view.prompt = view.search
        elif key in ("tab", "back tab") and view.lines is None and view.found is None:
            step = 1 if key == "tab" else -1
            view.section = SECTIONS[(SECTIONS.index(view.section) + step) % len(SECTIONS)]
        elif key == "enter" and view.lines is None:
            self._open()
        elif key == "p" and view.lines is None and view.section == "queues":
            self._pause()
        elif key in ("c", "r"):
            self._act("cancel" if key == "c" else "retry")

    def _move(self, steps: int) -> None:
        view = self.view
        if view.lines is not None:
            view.scroll = max(0, min(view.scroll + steps, len(view.lines) - 1))
            return
        rows = view.rows(view.section)
        keys = [row_key(view.section, row) for row in rows]
        if keys:
            at = keys.index(view.key(view.section)) + steps
            view.selected[view.section] = keys[max(0, min(at, len(keys) - 1))]

    def _back(self) -> None:
        view = self.view
        if view.lines is not None:
            view.lines, view.shown = None, ""
        elif view.found is not None:
            view.found, view.search, view.section = None, "", "queues"

    def _type(self, key: str) -> None:
        view = self.view
        typed = view.prompt or ""
        if key == "esc":
            view.prompt = None
        elif key == "enter":
            view.prompt = None
            self._search(typed.strip())
        elif key == "backspace":
            view.prompt = typed[:-1]
        elif len(key) == 1 and len(typed) < _LONGEST:
            view.prompt = typed + key

    def _search(self, text: str) -> None:
        def task(api: Api) -> Change:
            order = {} if text else {"order": "-id"}
            found = api.get("/api/jobs", {"q": text, "limit": _FOUND, **order})["data"]

            def change(view: View) -> None:
                view.found, view.search, view.section = found, text, FOUND
                view.lines, view.shown = None, ""

            return change

        self._ask(task)

    def _open(self) -> None:
        view = self.view
        key = view.key(view.section)
        if not key:
            return
        if view.section == "queues":
            self._search(search_text((), queues=[key]))
        else:
            self._show(key)

    def _show(self, job_id: str) -> None:
        screen = self._screen

        def task(api: Api) -> Change:
            text = api.text(f"/api/jobs/{job_id}")
            lines = list(job_lines(text, why_waiting(api, int(job_id)), screen))

            def change(view: View) -> None:
                view.lines, view.shown, view.scroll = lines, job_id, 0

            return change

        self._ask(task)

    def _pause(self) -> None:
        view = self.view
        name = view.key("queues")
        row = next((row for row in view.rows("queues") if row["name"] == name), None)
        if row is None:
            return
        verb = PAUSE if row["paused_at"] is None else RESUME
        view.question = f"{verb.label} queue {one_line(name)}?"

        def task(api: Api) -> Change:
            api.send("PUT", f"/api/queues/{quote(name, safe='')}/{verb.name}")
            return _message(f"Queue {one_line(name)} is {QUEUE_VERBS[verb.name].done}. {verb.hint}")

        self._agreed = lambda: self._ask(task)

    def _act(self, name: str) -> None:
        view, verb = self.view, JOB_VERBS[name]
        job_id = view.shown or ("" if view.section == "queues" else view.key(view.section))
        if not job_id or (view.lines is not None and not view.shown):
            return

        def task(api: Api) -> Change:
            told = Told()
            told.add(api.send("POST", f"/api/jobs/{name}", {"ids": [int(job_id)], "partial": True}))
            return _message(f"Job {job_id}: {' '.join(told.lines(verb, {}))}")

        self._ask(task)
        if view.shown:
            self._show(job_id)
        elif view.section == FOUND:
            self._search(view.search)


def _trouble(text: str) -> Change:
    def change(view: View) -> None:
        view.trouble = text

    return change


def _raise(error: Exception) -> Change:
    """Return what raises an error where it is seen: a mistake of ours must not pass in silence."""

    def change(view: View) -> None:
        raise error

    return change


def _message(text: str) -> Change:
    def change(view: View) -> None:
        view.message = text.strip()

    return change


def once(api: Api, view: View, screen: Screen) -> list[str]:
    """Return the lines of one frame."""
    api.read_figures(_FIGURES_SECONDS)
    overview(api)(view)
    return frame(view, screen)


def shown_place(environ: Mapping[str, str], flags: Mapping[str, Any]) -> str:
    """Return what is asked, for the title: the dashboard's address or the database's host and
    name, without passwords; ConfigError for a database's URL that cannot be read.
    """
    from urllib.parse import urlsplit

    from riverui.cli.api.chosen import dashboard_url
    from riverui.cli.client_settings import CLIENT_SETTINGS
    from riverui.cli.settings import choose, texts
    from riverui.storage.connect import place

    values = choose(texts(flags), environ, CLIENT_SETTINGS)
    url = dashboard_url(values)
    if not url:
        return place(values.text("database_url"))
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return f"{parts.netloc.rpartition('@')[2]}{parts.path}".strip("/")
