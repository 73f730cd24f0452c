"""A reader of a tutorial, who types what its blocks say into a folder and looks at what they show.

A block of commands is `console`: lines with `$` are typed, what follows is shown. A comment before
a block has one of these meanings:

* `<!-- not run: why -->`
* `<!-- in a terminal of its own: name -->`: the command keeps running; another one of the same
  name ends it with Ctrl-C first.
* `<!-- said by: name -->`: no command, but lines that appear in that terminal.
* `<!-- in place of the line that begins in the same way -->`: one line for a file that is there.

Other blocks whose first line is a comment with a file's name are that file.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port
from tests.program import Program
from tests.worker.conftest import wait_for

AT_MOST = 240.0
"""Seconds within which a terminal must show what the page shows, on a busy machine where a Go
program is compiled first."""

_BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[^\n]*) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_FILE = re.compile(r"(?:#|//|--) ([\w./-]+)\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """One block of a page."""

    language: str
    note: str
    text: str

    @property
    def file(self) -> str:
        """The file that it is; empty where it is none."""
        found = _FILE.match(self.text)
        return found[1] if found else ""

    def examples(self) -> Iterator[tuple[str, str]]:
        """Yield each command with what it is shown to say."""
        for example in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, shown = example.partition("\n")
            yield command, shown


def blocks(page: Path) -> Iterator[Block]:
    """Yield a page's blocks that a reader types, in their order."""
    for found in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if not (found["note"] or "").startswith("not run"):
            yield Block(language=found["language"], note=found["note"] or "", text=found["text"])


def missing(shown: str, printed: str) -> str:
    """Return the first shown line that was not printed, in order; empty if all were.

    Numbers, times and names of machines differ; `…` is anything.
    """
    lines = iter([_alike(line) for line in printed.splitlines()])
    for line in shown.splitlines():
        wanted = _alike(line)
        if wanted not in ("", "…") and wanted not in lines:
            return line
    return ""


def _alike(line: str) -> str:
    text = re.sub(r"\b\w+_\d{4}_\d\d_\d\dT[\d_]+", "<client>", line)
    text = re.sub(r"\d+ (s|[mhd] \d+ [smh]) ago", "<ago>", text)
    text = re.sub(r"(?<=in )\d+( s| min|( m| h) \d+ [sm])\b", "<span>", text)
    text = re.sub(r"\d+(?:[:.,/-]\d+)*", "0", text)
    return " ".join(text.split())


class Terminal(Program):
    """A command that keeps running."""

    def shows(self, shown: str) -> None:
        """Wait until it has printed these lines."""

        def all_printed() -> bool:
            reading = self.reading
            line = missing(shown, self.output)
            assert not line or reading, f"never printed {line!r}:\n{self.output}"
            return not line

        wait_for(all_printed, seconds=AT_MOST)

    def ends(self, number: int = signal.SIGINT) -> int:
        """Press Ctrl-C, which reaches all of its processes, or send another signal; return the
        exit code.
        """
        os.killpg(self.process.pid, number)
        try:
            return self.process.wait(AT_MOST)
        finally:
            self.close()


class Reader:
    """Does what the blocks say, one after the other."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder
        self.environ = environ
        self.terminals: dict[str, Terminal] = {}
        self._ports: dict[str, int] = {}

    def port(self, written: str) -> int:
        """Return the free port that stands in for the one on the page."""
        return self._ports.setdefault(written, free_port())

    def does(self, block: Block) -> None:
        """Type a block, or write its file, and look at what it shows."""
        kind, _, rest = block.note.partition(": ")
        if kind == "said by":
            self.terminals[rest].shows(block.text)
        elif kind == "in place of the line that begins in the same way":
            self._replaces(block.text.splitlines()[0])
        elif block.language == "console":
            for command, shown in block.examples():
                if kind == "in a terminal of its own":
                    self.starts(rest, command).shows(shown)
                else:
                    printed = self.types(command)
                    assert not (line := missing(shown, printed)), (
                        f"{command}: no {line!r} in\n{printed}"
                    )
        else:
            assert block.file, f"a block that nobody runs:\n{block.text}"
            path = self.folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")

    def types(self, command: str) -> str:
        """Run a command to its end; return what it printed."""
        done = self._run(command)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def code(self, command: str) -> int:
        """Run a command to its end; return its exit code."""
        return self._run(command).returncode

    def starts(self, name: str, command: str) -> Terminal:
        """Begin a command in the terminal of this name, ending what went on there."""
        if before := self.terminals.pop(name, None):
            before.ends()  # `go run` says 1 then, whatever its program says
        self.terminals[name] = Terminal(
            "bash", "-c", self._own(command), folder=self.folder, environ=self.environ
        )
        return self.terminals[name]

    def leaves(self) -> None:
        """Close the terminals."""
        for terminal in self.terminals.values():
            terminal.close()

    def _run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", self._own(command)], cwd=self.folder, env=self.environ, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=AT_MOST,
        )  # fmt: skip

    def _own(self, command: str) -> str:
        return re.sub(r"\b80[89]\d\b", lambda found: str(self.port(found[0])), command)

    def _replaces(self, line: str) -> None:
        start = line.partition(" = ")[0] + " = "
        (path,) = [
            path for path in self.folder.glob("*.py") if f"\n{start}" in path.read_text("utf-8")
        ]
        text = re.sub(rf"(?m)^{re.escape(start)}.*$", lambda _: line, path.read_text("utf-8"))
        path.write_text(text, encoding="utf-8")


@contextmanager
def reading(folder: Path, environ: Mapping[str, str]) -> Iterator[Reader]:
    """Yield a reader in this folder, whose terminals are closed at the end."""
    reader = Reader(folder, environ)
    try:
        yield reader
    finally:
        reader.leaves()
