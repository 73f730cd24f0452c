"""The application of `riverui top`, on textual."""

from __future__ import annotations

import asyncio
import queue
import signal
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import ClassVar
from urllib.parse import quote

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen, Screen as TextualScreen
from textual.widgets import DataTable, Footer, HelpPanel, Input, Label, Static

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.queues import PAUSE, QUEUE_VERBS, RESUME
from riverui.cli.api.client import Api
from riverui.cli.job.arguments import search_text
from riverui.cli.job.get import job_lines, why_waiting
from riverui.cli.job.verbs import JobResult
from riverui.cli.terminal import Screen, one_line
from riverui.cli.top import lines
from riverui.cli.top.lines import FOUND, TITLES, Row
from riverui.errors import RiveruiError

_FOUND = 100
"""Jobs that a search shows: some screens full."""
_LONGEST = 1_000
"""Characters of a search: as many as the grammar takes."""
_STOP_SECONDS = 0.5
"""Seconds that the current request may take at the end: the person who quits waits for it."""

Show = Callable[[], Awaitable[None] | None]
"""Shows a response of the API, in the application's thread."""
Task = Callable[[Api], Show]
"""Sends requests to the API, in the thread for requests."""


class Rows(DataTable[Text]):
    """A table of queues or jobs whose cursor stays on its row when the rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    def __init__(self, table: str) -> None:
        super().__init__(cursor_type="row")
        self.table = table
        for heading in lines.headings(table):
            self.add_column(Text(heading.name, justify="right" if heading.right else "left"))

    @property
    def selected(self) -> str:
        """Return the key of the selected row; empty without rows."""
        if not self.row_count:
            return ""
        return str(self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value)

    def show(self, rows: Sequence[Row], overview: Row) -> None:
        """Replace the rows."""
        selected, screen = self.selected, Screen(colors=True)
        self.clear()
        for row in rows:
            cells = []
            for heading, text in zip(
                lines.headings(self.table), lines.cells(self.table, row, overview), strict=True
            ):
                cell = Text.from_ansi(screen.state(text)) if heading.states else Text(text)
                cell.justify = "right" if heading.right else "left"
                cells.append(cell)
            self.add_row(*cells, key=lines.row_key(self.table, row))
        if selected in self.rows:
            self.move_cursor(row=self.get_row_index(selected))


class Question(ModalScreen[bool]):
    """Asks for confirmation; any key but y is a no."""

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        """Show the question."""
        yield Label(Text(f"{self._question} y/n", style="bold yellow"))

    def on_key(self, event: events.Key) -> None:
        """Answer it."""
        event.stop()
        self.dismiss(event.key in ("y", "Y"))


class FoundJobs(TextualScreen[None]):
    """A search, as in the dashboard's box, and the jobs that it has found."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def compose(self) -> ComposeResult:
        """Show the box and a table."""
        self.box = Input(placeholder="kind:mail_send state:retryable", max_length=_LONGEST)
        self._table = Rows(FOUND)
        yield from (self.box, self._table, Footer())

    def show(self, search: str, jobs: Sequence[Row], overview: Row) -> None:
        """Replace the search and its jobs."""
        self.box.value = search
        self._table.show(jobs, overview)
        if jobs:
            self._table.focus()
        else:
            self.notify("No job matches.")


class ShownJob(TextualScreen[None]):
    """One job."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "app.pop_screen", "Back")]

    def __init__(self, job_id: str, text: Text) -> None:
        super().__init__()
        self.job_id = job_id
        self._text = text

    def compose(self) -> ComposeResult:
        """Show its text."""
        yield from (VerticalScroll(Static(self._text)), Footer())


class Top(App[int]):
    """Shows the overview, refreshed periodically, and acts on queues and jobs."""

    CSS = """
    Static { height: auto; }
    Vertical { height: 1fr; }
    DataTable { height: auto; max-height: 33%; margin-bottom: 1; }
    FoundJobs DataTable { height: 1fr; max-height: 100%; margin: 0; }
    Question { align: center bottom; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("p", "pause", "Pause or resume"),
        Binding("c", "act('cancel')", "Cancel"),
        Binding("r", "act('retry')", "Retry"),
        Binding("slash", "search", "Search"),
        Binding("question_mark", "help", "Help"),
    ]

    def __init__(self, api: Api, *, place: str, interval: float) -> None:
        super().__init__()
        self._interval = interval
        self._place = place
        self._overview: Row = {}
        self._tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run_tasks, args=[api], daemon=True)

    def compose(self) -> ComposeResult:
        """Show the overview: each table, or the reason why it has no rows."""
        self._head = Static("Reading …")
        self._tables = {name: (Static(), Rows(name)) for name in TITLES}
        yield self._head
        with Vertical():
            for widgets in self._tables.values():
                yield from widgets
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.exit, 128 + number)
        self._thread.start()

    def on_unmount(self) -> None:
        """End after the current request; one that hangs ends with the process."""
        self._tasks.put(None)
        self._thread.join(_STOP_SECONDS)

    def _run_tasks(self, api: Api) -> None:
        """Run tasks one after the other, and refresh the overview in between; in a separate thread,
        so that keys respond at once.
        """
        task: Task | None = self._read
        while task is not None:
            try:
                show = task(api)
            except RiveruiError as error:
                show = partial(self._fail, str(error), reading=task == self._read)
            except Exception as error:
                show = partial(self._raise, error)
            self.call_later(show)
            try:
                task = self._tasks.get(timeout=self._interval if task == self._read else 0)
            except queue.Empty:
                task = self._read

    def _read(self, api: Api) -> Show:
        return partial(self._show, api.get("/api/overview"))

    def _fail(self, message: str, *, reading: bool) -> None:
        """Report an error: of reading in place of the title, until it works again."""
        if reading:
            self._show(self._overview, problem=message)
        else:
            self.notify(one_line(message), severity="error", markup=False)

    def _raise(self, error: Exception) -> None:
        """Re-raise an unexpected error in the application's thread."""
        raise error

    def _show(self, overview: Row, problem: str = "") -> None:
        self._overview, screen = overview, Screen(colors=True)
        title = "  ".join(lines.title(self._place, overview))
        head = [screen.style(one_line(problem), "red") or screen.style(title, "bold")]
        if overview:
            head += [f"{mark} {text}" for mark, text in lines.verdicts(overview, screen)]
            states = lines.states(overview)
            head += ["", "   ".join(screen.state(state, text) for state, text in states), ""]
            for name, (heading, table) in self._tables.items():
                reason = lines.missing(name, overview)
                heading.update(Text(f"{TITLES[name]}: {reason}\n"))
                heading.display, table.display = bool(reason), not reason
                table.show(overview.get(name) or (), overview)
        self._head.update(Text.from_ansi("\n".join(head)))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the jobs of a queue, or a job."""
        key = str(event.row_key.value)
        if event.data_table is self._tables["queues"][1]:
            self._search(search_text((), queues=[key]))
        else:
            self._show_job(key)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Search."""
        self._search(event.value.strip())

    async def action_search(self) -> None:
        """Focus the search box."""
        (await self._found_jobs()).box.focus()

    async def _found_jobs(self) -> FoundJobs:
        """Return the screen of searches, shown."""
        if isinstance(self.screen, FoundJobs):
            return self.screen
        screen = FoundJobs()
        await self.push_screen(screen)
        return screen

    def _search(self, search: str) -> None:
        def task(api: Api) -> Show:
            order = {} if search else {"order": "-id"}
            found = api.get("/api/jobs", {"q": search, "limit": _FOUND, **order})
            return partial(show, found["data"])

        async def show(jobs: Sequence[Row]) -> None:
            (await self._found_jobs()).show(search, jobs, self._overview)

        self._tasks.put(task)

    def _show_job(self, job_id: str) -> None:
        def task(api: Api) -> Show:
            text = api.text(f"/api/jobs/{job_id}")
            shown = job_lines(text, why_waiting(api, int(job_id)), Screen(colors=True))
            return partial(show, Text.from_ansi("\n".join(shown)))

        def show(text: Text) -> None:
            again = isinstance(self.screen, ShownJob)
            (self.switch_screen if again else self.push_screen)(ShownJob(job_id, text))

        self._tasks.put(task)

    def action_pause(self) -> None:
        """Pause or resume the selected queue, after confirmation."""
        queues = self._tables["queues"][1]
        name = queues.selected
        if self.focused is not queues or not name:
            return
        row = next(row for row in self._overview["queues"] if row["name"] == name)
        verb = PAUSE if row["paused_at"] is None else RESUME

        def task(api: Api) -> Show:
            api.send("PUT", f"/api/queues/{quote(name, safe='')}/{verb.name}")
            done = QUEUE_VERBS[verb.name].done
            return partial(self._report, f"Queue {one_line(name)} is {done}. {verb.hint}")

        def answered(agreed: bool | None) -> None:
            if agreed:
                self._tasks.put(task)

        self.push_screen(Question(f"{verb.label} queue {one_line(name)}?"), answered)

    def action_act(self, name: str) -> None:
        """Cancel or retry the selected job."""
        screen, focused, job_id = self.screen, self.focused, ""
        if isinstance(screen, ShownJob):
            job_id = screen.job_id
        elif isinstance(focused, Rows) and focused.table != "queues":
            job_id = focused.selected
        if not job_id:
            return

        def task(api: Api) -> Show:
            changed, body = JobResult(), {"ids": [int(job_id)], "partial": True}
            changed.add(api.send("POST", f"/api/jobs/{name}", body))
            summary = " ".join(changed.lines(JOB_VERBS[name], {}))
            return partial(self._report, f"Job {job_id}: {summary}")

        self._tasks.put(task)
        if isinstance(screen, ShownJob):
            self._show_job(job_id)
        elif isinstance(screen, FoundJobs):
            self._search(screen.box.value)

    def _report(self, message: str) -> None:
        self.notify(message.strip(), markup=False)

    def action_help(self) -> None:
        """Show or hide all keys."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()
