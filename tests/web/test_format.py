"""How values read: text that hides nothing, exact numbers, times, JSON, tracebacks and logs."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given, strategies

from riverui.domain.jobs import JsonText
from riverui.storage.interface.params import Count, CountKind
from riverui.web.view import format as shown, long_text

NOW = datetime(2026, 11, 21, 14, 2, 11, 123_000, tzinfo=UTC)


class _Words(HTMLParser):
    """Collects text, and every tag that was opened."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.text, self.tags = "", set[str]()
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def _tree(text: str) -> str:
    return str(long_text.json_tree(JsonText(text=text, size=len(text))))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 ms"),
        (0.34, "340 ms"),
        (0.9999, "1.0 s"),
        (1.24, "1.2 s"),
        (59.96, "1 m 0 s"),
        (252, "4 m 12 s"),
        (3599.7, "1 h 0 m"),
        (90_061, "1 d 1 h"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert shown.duration(timedelta(seconds=seconds)) == text


def test_a_time_carries_its_instant_and_absolute_utc_whatever_is_preferred() -> None:
    at = NOW - timedelta(seconds=12)
    for mode, text in (
        ("relative", "12 s ago"),
        ("utc", "11-21 14:01:59"),
        ("local", "11-21 14:01:59"),
    ):
        time = str(shown.Times(now=NOW, mode=mode).ago(at))
        assert 'datetime="2026-11-21T14:01:59.123Z"' in time
        assert 'title="2026-11-21 14:01:59.123 UTC"' in time
        assert f">{text}<" in time
    assert shown.clock(NOW.replace(year=2025), NOW) == "2025-11-21 14:02"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (99_999, "99,999"),
        (100_000, "100k"),
        (999_499, "999k"),
        (999_999, "1M"),
        (9_812_345, "9.8M"),
        (98_123_456, "98M"),
        (2_500_000_000, "2.5B"),
    ],
)
def test_compact_numbers(value: int, text: str) -> None:
    assert shown.compact(value) == text


def test_counts_say_how_they_were_counted() -> None:
    assert ">1,203<" in shown.count(Count(value=1203))
    assert "counted exactly" in shown.count(Count(value=1203))
    assert ">10,000+<" in shown.count(Count(value=10_000, kind=CountKind.AT_LEAST))
    estimated = shown.count(Count(value=9_812_345, kind=CountKind.ESTIMATED, at=NOW))
    assert ">≈ 9.8M<" in estimated
    assert "9,812,345" in estimated
    assert "statistics at 14:02:11 UTC" in estimated
    assert ">10,000+<" in shown.count(10_000, 10_000)
    assert ">–<" in shown.count(None)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (9_980_095, CountKind.EXACT, "10M"),
        (9_980_095, CountKind.AT_LEAST, "9.9M+"),
        (9_700_000, CountKind.ESTIMATED, "≈ 9.7M"),
        (999_999, CountKind.EXACT, "999,999"),
        (10_000, CountKind.AT_LEAST, "10,000+"),
        (11_267, CountKind.ESTIMATED, "≈ 11,300"),
        (7, CountKind.ESTIMATED, "≈ 7"),
        (0, CountKind.ESTIMATED, "≈ 0"),
    ],
)
def test_a_count_has_one_way_to_be_written(value: int, kind: CountKind, text: str) -> None:
    assert shown.count_text(Count(value=value, kind=kind)) == text


def test_sizes() -> None:
    assert [shown.size(n) for n in (0, 999, 1_000, 1_400_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "1.4 MB",
    ]


def test_hidden_characters_become_visible_escapes() -> None:
    text = "a\u202eb\x00c\u200bd\x1b[31m"
    assert shown.plain(text) == r"a\u202eb\u0000c\u200bd\u001b[31m"
    assert _Words(shown.visible(text)).text == r"a\u202eb\u0000c\u200bd\u001b[31m"
    assert shown.plain("👩\u200d🚀") == "👩\u200d🚀"
    assert "\ud800" not in shown.visible("\ud800")
    assert shown.plain("x" * 3_000).endswith("(1,000 more characters)")
    assert str(shown.short("x" * 200, 10)).startswith(f'<bdi title="{"x" * 200}">{"x" * 10}…')


@given(strategies.text())
def test_no_text_ever_becomes_a_tag(text: str) -> None:
    for markup in (
        shown.visible(text),
        shown.word(text),
        shown.short(text, 5),
        long_text.trace(text),
        long_text.log(text),
    ):
        assert _Words(markup).tags <= {"bdi", "span"}
    assert _Words(_tree(json.dumps({text: [text, {text: text}]}))).tags <= {
        "bdi",
        "details",
        "div",
        "li",
        "span",
        "summary",
        "ul",
    }


def test_json_keeps_every_digit_and_the_stored_order() -> None:
    text = (
        '{"z": 9007199254740993123, "a": 1.10000000000000000001, "e": -1E400, "big": '
        + "9" * 5_000
        + "}"
    )
    tree = _tree(text)
    for number in ("9007199254740993123", "1.10000000000000000001", "-1E400", "9" * 4_000 + "…"):
        assert number in unescape(tree), number[:30]
    assert tree.index(">z<") < tree.index(">a<")


def test_json_shows_repeated_keys_empty_values_and_scalars() -> None:
    tree = _Words(_tree('{"a": 1, "a": {}, "b": [], "c": null, "d": true, "e": ""}')).text
    assert re.sub(r"\s+", " ", tree) == "a 1a {}b []c nulld truee "
    assert _Words(_tree('"text"')).text == "text"


@pytest.mark.long
def test_huge_json_is_cut_and_says_what_is_missing() -> None:
    assert "… 900 more" in _tree(json.dumps(list(range(1_000))))
    assert (
        len(_tree(json.dumps([[list(range(60)) for _ in range(60)] for _ in range(60)]))) < 400_000
    )
    assert "… 6,000 more characters" in _tree(json.dumps("x" * 10_000))


def test_deep_json_is_cut_or_plain() -> None:
    assert "nested deeper" in _tree("[" * 90 + "]" * 90)
    assert "json-text" in _tree("[" * 100_000 + "]" * 100_000)


def test_what_is_not_json_or_cut_is_plain_text() -> None:
    assert "json-text" in _tree('{"a": NaN}')
    cut = str(long_text.json_tree(JsonText(text='{"a": "xx', size=5_000_000)))
    assert "json-text" in cut
    assert "… 4,999,991 more characters" in cut


def test_frames_of_libraries_runtime_and_river_are_dimmed() -> None:
    python = long_text.trace(
        "Traceback (most recent call last):\n"
        '  File "/x/site-packages/httpx/a.py", line 1, in send\n    raise x\n'
        '  File "/app/jobs.py", line 2, in work\n    mine()\nValueError: no'
    )
    assert re.findall(r'<span class="frame-dim">\s*(.*?)\n', python) == [
        "File &quot;/x/site-packages/httpx/a.py&quot;, line 1, in send",
        "raise x",
    ]
    go = long_text.trace(
        "goroutine 7"
        " [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26"
        " +0x5e\nmain.(*Worker).Work(0xc0)\n\t/app/main.go:12"
        " +0x1d\ngithub.com/riverqueue/river/internal/jobexecutor.(*JobExecutor).execute(0xc0)\n\t/root/go/pkg/mod/github.com/riverqueue/river@v0.51.1/internal/jobexecutor/x.go:210"  # noqa: E501
        " +0x1d\n"
    )
    assert len(re.findall("frame-dim", go)) == 4
    assert re.search(r"</span>main\.\(\*Worker\)", go)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("12:00 ERROR no", "log-bad"),
        ("level=warn msg=x", "log-warn"),
        ('{"level":"debug"}', "log-dim"),
        ("time=x level=INFO msg=an error happened", ""),
        ("a TERRORIST attack", ""),
    ],
)
def test_log_lines_are_coloured_by_level(line: str, name: str) -> None:
    assert (f'class="{name}"' in long_text.log(line)) == bool(name)
    assert ("class=" in long_text.log(line)) == bool(name)


def test_long_logs_and_lines_are_cut() -> None:
    assert "… 500 more lines" in long_text.log("x\n" * 2_500)
    assert len(long_text.log("y" * 2_000_000)) < 5_000


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("4096 kB", "4 MB"),
        ("1048576 kB", "1 GB"),
        ("128 MB", "128 MB"),
        ("1536 kB", "1536 kB"),
        ("60000 ms", "1 min"),
        ("1500 ms", "1500 ms"),
        ("0 kB", "0 kB"),
        ("-1", "-1"),
        ("on", "on"),
        ("0.2", "0.2"),
        ("", ""),
    ],
)
def test_server_settings_have_readable_units(value: str, words: str) -> None:
    assert shown.setting(value) == words
