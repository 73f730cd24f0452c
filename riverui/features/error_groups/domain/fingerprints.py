"""Decides which errors are the same, by a fingerprint of a failed attempt.

A Python traceback is identified by its type and the program's own frames, a Go panic by its
stack's. Other errors are identified by their type, if they name one, and their message without the
parts that differ from job to job. Other rules would group the same errors differently, so
fingerprints name the version of their rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from riverui.domain.retries import NOT_TRIED_AGAIN

RULES = "fp1"
"""The prefix of every fingerprint. New rules need a new one."""
FINGERPRINT = re.compile(r"fp[0-9]{1,3}:[0-9a-f]{16}")
"""Matches a fingerprint."""
METADATA_KEY = "riverui:fingerprint"
"""The metadata key by which a job sets its own fingerprint."""
RELEASE_KEY = "riverui:release"
"""The metadata key that names the release that worked the job last."""

MAX_ERROR = 2_000
"""Characters of a message that are read: what distinguishes errors comes first."""
MAX_TRACE = 8_000
"""Characters of a trace that are read, half from its beginning (where Go's panic is) and half from
its end (where Python's error is).
"""
MAX_GIVEN = 100
"""Longest fingerprint that a job may set, in characters; a longer one is ignored."""
MAX_MESSAGE = 500
"""Longest normalised message, in characters: enough to distinguish errors, and some lines of a
page.
"""
_MAX_SEGMENT = 200
"""Longest part of a message, in characters, so that a long part does not displace the others."""
_MAX_FRAMES = 10
"""Innermost frames that are used: their callers are the same for many errors."""
_FEWEST_FRAMES = 2
"""Own frames needed to identify an error without its message; a single one is often the worker that
runs everything.
"""
_MAX_NAME = 100
"""Longest name of a function, file or type, in characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorSignature:
    """What the errors of a group have in common."""

    fingerprint: str
    """The version of the rules, a colon, and 16 hexadecimal digits."""
    type: str
    """The class of a Python error, or `panic` for a Go panic; empty if unknown."""
    message: str
    """Without the type; parts that differ from job to job are replaced by words such as
    `<number>`.
    """
    frames: tuple[str, ...]
    """The program's own frames, innermost last: `resize.py in work`."""

    @property
    def title(self) -> str:
        """Return type and message in one line."""
        return ": ".join(filter(None, (self.type, self.message))) or "(no message)"


def error_signature(error: str, trace: str = "", given: str = "") -> ErrorSignature:
    """Return the signature of an attempt's error; `given` is the job's own fingerprint, which takes
    precedence. Takes time in proportion to the length of the texts, which are cut.
    """
    # The reason why an attempt was the last one does not distinguish errors.
    error, trace = error[:MAX_ERROR].partition(NOT_TRIED_AGAIN)[0], cut_trace(trace)
    frames = tuple(_frames(trace))
    kind, rest = _type(error, trace)
    message = normalised(rest)
    if 0 < len(given) <= MAX_GIVEN:
        basis: tuple[str, ...] = ("given", given)
    elif len(frames) >= _FEWEST_FRAMES:
        basis = ("frames", kind, *frames)
    else:
        basis = ("message", kind, message)
    digest = sha256("\n".join(basis).encode("utf-8", "surrogatepass")).hexdigest()
    return ErrorSignature(
        fingerprint=f"{RULES}:{digest[:16]}", type=kind, message=message, frames=frames
    )


def cut_trace(trace: str) -> str:
    """Return the part of the trace that is read: the beginning and the end of a long one."""
    if len(trace) <= MAX_TRACE:
        return trace
    half = MAX_TRACE // 2
    return f"{trace[:half]}\n…\n{trace[-half:]}"


# Each alternative starts only at the start of a word, each repetition ends where another character
# must follow, and most are bounded, so the time grows linearly with the text. No possessive
# quantifiers: those of Python before 3.11.5 match wrongly.
_WORD = r"(?<![A-Za-z0-9_])"
_TOP = (
    "com|net|org|io|dev|app|cloud|info|biz|edu|gov|internal|local|localdomain|lan|svc|example|test"
    "|invalid|eu|uk|de|fr|nl|es|it|ch|at|be|pl|se|no|dk|fi|ie|pt|cz|us|ca|au|nz|jp|cn|in|br|mx|ru"
)
_PARTS = {
    "kept": (
        # A status code distinguishes errors.
        r"(?i:(?<![A-Za-z0-9])(?:status(?:\ code)?|code|http|sqlstate)"
        r"[ :=/(]{1,3}[0-9][0-9A-Z]{2,4})"
        r"(?![A-Za-z0-9.])"
    ),
    "email": rf"{_WORD}(?<![.+%-])[\w.+%-]{{1,64}}@[\w-]{{1,63}}(?:\.[\w-]{{1,63}}){{0,8}}",
    "url": r"(?<![A-Za-z])[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s\"'`<>\\,;]*",
    "host": (
        rf"(?i:{_WORD}(?<![.-])(?:(?:(?!(?:{_TOP})(?![\w.-]))[a-z0-9_-]{{1,63}}\.){{1,10}}"
        rf"(?:{_TOP})(?![\w.-])|localhost(?![\w-])\.?)(?::[0-9]{{1,5}})?)"
    ),
    "ip": (
        rf"{_WORD}(?:[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}(?:/[0-9]{{1,2}}|:[0-9]{{1,5}})?(?!\w)"
        r"|(?i:(?:[0-9a-f]{1,4}:){7}[0-9a-f]{1,4}"
        r"|(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?::(?:[0-9a-f]{1,4}(?::[0-9a-f]{1,4}){0,6})?)"
        r"(?!\w|:\w))"
    ),
    "uuid": rf"(?i:{_WORD}[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\b)",
    "hash": (
        r"(?i:(?<![A-Za-z0-9])"
        r"(?:[0-9a-f]{128}|[0-9a-f]{96}|[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{32})(?![A-Za-z0-9]))"
    ),
    "date": (
        rf"{_WORD}(?:[0-9]{{4}}[-/][0-9]{{1,2}}[-/][0-9]{{1,2}}"
        r"(?:[T\ ][0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?)?"
        r"(?:\ ?(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2}))?(?:\ [A-Z]{3,4})?(?:\ m=[+-][0-9.]{1,20})?"
        r"|(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),?\ )?[0-9]{1,2}[\ -]"
        r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}[\ -][0-9]{4}"
        r"(?:\ [0-9]{2}:[0-9]{2}(?::[0-9]{2})?(?:\ (?:GMT|UTC|[+-][0-9]{4}))?)?"
        r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]{1,9})?)?Z?)(?![A-Za-z0-9])"
    ),
    "duration": (
        r"(?<![A-Za-z0-9])(?:[0-9]{1,15}(?:\.[0-9]{1,15})?(?:ns|us|µs|μs|ms|s|m|h|d)){1,6}"
        r"(?![A-Za-z0-9])"
    ),
    "hex": (
        r"(?i:(?<![A-Za-z0-9])(?:0x[0-9a-f]+"
        r"|(?=[0-9]{0,127}[a-f])(?=[a-f]{0,127}[0-9])[0-9a-f]{7,127})(?![A-Za-z0-9]))"
    ),
    "id": (
        r"(?<![A-Za-z0-9])(?=[A-Za-z]{0,63}[0-9])(?=[0-9]{0,63}[A-Za-z])"
        r"(?=[A-Za-z]{0,63}[0-9]{1,63}[A-Za-z]{1,63}[0-9])[A-Za-z0-9]{12,}"
    ),
    "number": (
        r"(?<![A-Za-z0-9])[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+|(?![.,][0-9]))"
        r"(?![A-Za-z0-9])"
    ),
    "str": r"\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”|‘[^’\n]*’|«[^»\n]*»",
}
"""What is replaced, and the word that replaces it; the first match wins."""
_PARAMETER = re.compile("|".join(f"(?P<{name}>{part})" for name, part in _PARTS.items()))

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202f\u2060-\u2069\ufeff]+")
"""White space and invisible characters."""


def normalised(message: str) -> str:
    """Return a message in one line, with the parts that differ from job to job replaced by
    `<number>`, `<str>` and the like.

    Go's wrapped errors, `send: dial tcp: connection refused`, keep all their parts.
    """
    text = _PARAMETER.sub(_replacement, _SPACE.sub(" ", message[:MAX_ERROR]).strip())
    if len(text) > _MAX_SEGMENT:
        segments = (segment[:_MAX_SEGMENT].rstrip() for segment in text.split(": "))
        text = ": ".join(segments)
    return text[:MAX_MESSAGE]


def _replacement(found: re.Match[str]) -> str:
    return found[0] if found.lastgroup == "kept" else f"<{found.lastgroup}>"


_TYPE = re.compile(r"((?:[A-Za-z_]\w{0,99}\.){0,20})([A-Za-z_]\w{0,99})(?=:|\s|$)")
_NAMED = re.compile(
    r"(?:[A-Za-z_]\w{0,99}\.){0,20}([A-Z]\w{0,99}"
    r"(?:Error|Exception|Exit|Interrupt|Timeout|Warning|Fault|NotFound|Denied))(?::|$)"
)
"""Only Python starts a message with this."""
_TRACEBACK = "Traceback (most recent call last):"


def _type(error: str, trace: str) -> tuple[str, str]:
    """Return an error's type, and the rest of its message."""
    if _TRACEBACK in trace:
        found = _TYPE.match(error)
        if found and (error[found.end() :].startswith(":") or found.end() == len(error)):
            return found[2], error[found.end() + 1 :].strip()
    if found := _NAMED.match(error):
        return found[1], error[found.end() :].strip()
    if _TRACEBACK not in trace and _GO_FRAME.search(trace):
        return "panic", error
    return "", error


_PYTHON_FRAME = re.compile(
    r'^[ |+]{0,40}File "([^"\n]{1,1000})", line [0-9]+, in ([^\n]{1,200})', re.M
)
_GO_FRAME = re.compile(r"^([^\s(][^\n\t]{0,999})\n\t([^\n]{1,1000}):[0-9]+", re.M)
_PYTHON_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python[0-9.]*[/\\]|^<", re.I
)
_GO_LIBRARY = re.compile(r"/go/src/|/pkg/mod/|/vendor/|@v[0-9]|/libexec/src/|/riverqueue/river")
_GO_STANDARD = re.compile(
    r"(?:bufio|bytes|compress|container|context|crypto|database|encoding|errors|fmt|hash|html|image"
    r"|internal|io|log|maps|math|mime|net|os|panic|reflect|regexp|runtime|slices|sort|strconv"
    r"|strings|sync|syscall|testing|text|time|unicode|unsafe)[./(]"
)
"""Go's standard packages, which a build with -trimpath shows without a directory."""
_GO_NAME = re.compile(r"(?:[^/\n(]*/)*")
_GO_ARGUMENTS = re.compile(r"\((?!\*)[^\n]*$")
_GO_CLOSURE = re.compile(r"\.func[0-9.]+")


def _frames(trace: str) -> Iterator[str]:
    """Yield the program's own frames of a trace, innermost last."""
    before = ""
    found = list(_python_frames(trace) if _TRACEBACK in trace else _go_frames(trace))
    for frame in found[-_MAX_FRAMES:]:
        if frame != before:
            yield frame
        before = frame


def _python_frames(trace: str) -> Iterator[str]:
    """Yield the frames of the error that was raised last; for an exception group, its own
    frames.
    """
    text = trace.partition("+-+-")[0].rpartition(_TRACEBACK)[2]
    for path, function in _PYTHON_FRAME.findall(text):
        if not _PYTHON_LIBRARY.search(path):
            name = re.split(r"[/\\]", path)[-1]
            yield f"{name[:_MAX_NAME]} in {function.strip()[:_MAX_NAME]}"


def _go_frames(trace: str) -> Iterator[str]:
    """Yield the frames of a Go stack, which lists the innermost first."""
    found = _GO_FRAME.findall(trace)
    for function, path in reversed(found):
        if _GO_LIBRARY.search(path) or _GO_STANDARD.match(function):
            continue
        name = _GO_CLOSURE.sub(".func", _GO_ARGUMENTS.sub("", function))
        yield _GO_NAME.sub("", name, count=1)[:_MAX_NAME]
