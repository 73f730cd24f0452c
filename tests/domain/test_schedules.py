"""When things come next; cron as robfig/cron reads it, against answers of the original."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.schedules import (
    NEVER,
    CronSchedule,
    DailyMidnight,
    NeverSchedule,
    PeriodicInterval,
    Schedule,
    cron_text,
)
from riverui.domain.time import go_duration
from riverui.errors import ConfigError
from tests.cases import cases

VECTORS = json.loads((Path(__file__).parent / "cron_vectors.json").read_text())
"""Five answers each of github.com/robfig/cron v3.0.1 (`ParseStandard`, `time.Local` being UTC)."""


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def some(schedule: Schedule, after: str, count: int = 3) -> list[str]:
    found = []
    now = at(after)
    for _ in range(count):
        now = schedule.next(now)
        found.append(now.isoformat().replace("+00:00", "Z"))
    return found


def test_cron_gives_the_answers_of_robfig() -> None:
    assert len(VECTORS) >= 300
    with cases() as case:
        for after, text, answers in VECTORS:
            with case(f"{text} after {after}"):
                assert some(CronSchedule(text), after, len(answers)) == answers


@pytest.mark.parametrize(
    ("text", "after", "answers"),
    [
        # A change of half an hour; 02:00 to 02:30 is left out on 6 October.
        (
            "TZ=Australia/Lord_Howe 0,48 23 * * *",
            "2024-10-05T14:51:48Z",
            ["2024-10-06T12:00:00Z", "2024-10-06T12:48:00Z"],
        ),
        # The day begins at 01:00; it has a 02:05 all the same.
        ("TZ=Africa/Cairo 5 2 26 4 *", "2024-04-25T14:02:51Z", ["2024-04-25T23:05:00Z"]),
        ("TZ=Australia/Lord_Howe @monthly", "2018-04-02T00:00:00Z", ["2018-04-30T13:30:00Z"]),
    ],
)
def test_cron_finds_times_that_robfig_loses_beside_a_change_of_the_clocks(
    text: str, after: str, answers: list[str]
) -> None:
    assert some(CronSchedule(text), after, len(answers)) == answers


def test_a_date_that_does_not_exist_never_comes() -> None:
    for text in ("0 0 30 2 *", "0 0 31 4,6 *"):
        assert CronSchedule(text).next(datetime.now(UTC)) == NEVER


def test_sunday_is_zero() -> None:
    for text in ("0 0 * * 0", "0 0 * * sun"):
        assert some(CronSchedule(text), "2024-01-01T00:00:00Z", 2) == [
            "2024-01-07T00:00:00Z",
            "2024-01-14T00:00:00Z",
        ]
    with pytest.raises(ConfigError, match=r"is 0 to 6 \(Sunday is 0\), not 7"):
        CronSchedule("0 0 * * 7")


def test_a_zone_in_the_text_wins_over_that_of_the_program() -> None:
    assert some(CronSchedule("0 9 * * *", "Europe/Berlin"), "2024-07-01T00:00:00Z", 1) == [
        "2024-07-01T07:00:00Z"
    ]
    assert some(CronSchedule("0 9 * * *", ZoneInfo("Asia/Tokyo")), "2024-07-01T00:00:00Z", 1) == [
        "2024-07-02T00:00:00Z"
    ]
    assert some(
        CronSchedule("0 9 * * *", timezone(timedelta(hours=-9))), "2024-07-01T00:00:00Z", 1
    ) == ["2024-07-01T18:00:00Z"]
    assert some(
        CronSchedule("CRON_TZ=UTC 0 9 * * *", "Europe/Berlin"), "2024-07-01T00:00:00Z", 1
    ) == ["2024-07-01T09:00:00Z"]


def test_the_zone_of_the_question_does_not_matter() -> None:
    schedule = CronSchedule("0 9 * * *")
    assert schedule.next(at("2024-01-01T10:30:00+02:00")) == at("2024-01-01T09:00:00Z")
    with pytest.raises(ValueError, match="time zone"):
        schedule.next(datetime(2024, 1, 1))  # noqa: DTZ001


def test_nonsense_is_told_in_words() -> None:
    with cases() as case:
        for text, words in (
            ("", "five fields, not 0"),
            ("* * * *", "five fields, not 4"),
            ("0 0 * * * *", "five fields, not 6"),
            ("xyz", "five fields, not 1"),
            ("60 0 * * *", "the minute is 0 to 59, not 60"),
            ("0 24 * * *", "the hour is 0 to 23"),
            ("0 0 0 * *", "the day of the month is 1 to 31, not 0"),
            ("0 0 * 13 *", "the month is 1 to 12"),
            ("0 0 * * 8", "the day of the week is 0 to 6"),
            ("0 0 * * XYZ", "“xyz” is not a day of the week"),
            ("jan * * * *", "“jan” is not a minute"),
            ("-1 * * * *", "is not a minute"),
            ("+5 * * * *", "is not a minute"),
            ("٣ * * * *", "is not a minute"),
            ("1,,2 * * * *", "“” is not a minute"),
            ("5-1 * * * *", "ends before it begins"),
            ("0 0 * * fri-sun", "ends before it begins"),
            ("*-5 * * * *", "is not a minute"),
            ("1-2-3 * * * *", "is not a minute"),
            ("*/0 * * * *", "step that is not a positive number"),
            ("*/-2 * * * *", "step that is not a positive number"),
            ("*/2/3 * * * *", "step that is not a positive number"),
            ("0 0 L * *", "“l” is not a day of the month"),
            ("@reboot", "use one of @yearly"),
            ("@HOURLY", "use one of @yearly"),
            ("@every", "not a duration"),
            ("@every Xm", "not a duration"),
            ("@every 0s", "must be greater than zero"),
            ("@every -5s", "not a duration"),
            ("@every 1h 30m", "not a duration"),
            ("TZ=Nowhere/Land 0 0 * * *", "Time zone “Nowhere/Land”"),
            ("CRON_TZ= 0 0 * * *", "Time zone"),
            ("TZ=../../etc/passwd 0 0 * * *", "Time zone"),
            ("TZ=UTC", "five fields, not 0"),
        ):
            with (
                case(text),
                pytest.raises(ConfigError, match=words.replace("*", r"\*")),
            ):
                CronSchedule(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("1h0.5s", 3600.5),
        ("250ms", 0.25),
        ("+2m", 120),
        (".5s", 0.5),
        ("1.s", 1),
        ("3us", 0.000003),
        ("3µs", 0.000003),
        ("3μs", 0.000003),
        ("1500ns", 0.000001),
        ("0", 0),
        ("0s", 0),
        ("2562047h47m16.5s", 9223372036.5),
    ],
)
def test_durations_are_go_s(text: str, seconds: float) -> None:
    assert go_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "5", "h", "-1s", "1d", "1 h", "1h-1m", ".s", "2562048h", "1e3s", "٣s"]
)
def test_other_durations_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="duration"):
        go_duration(text)


def test_an_interval_counts_from_the_time_before() -> None:
    schedule = PeriodicInterval(timedelta(minutes=15))
    assert schedule.next(at("2024-01-01T00:03:00.5Z")) == at("2024-01-01T00:18:00.5Z")
    assert schedule.next(NEVER) == NEVER
    with pytest.raises(ConfigError, match="must be greater than zero"):
        PeriodicInterval(timedelta(0))


def test_never_is_the_end_of_the_calendar() -> None:
    assert NeverSchedule().next(at("2024-01-01T00:00:00Z")) == NEVER
    assert CronSchedule("0 0 1 1 *").next(NEVER - timedelta(days=1)) == NEVER
    assert CronSchedule("@every 1h").next(NEVER) == NEVER


@pytest.mark.parametrize(
    ("after", "midnight"),
    [
        ("2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z"),
        ("2024-01-01T23:59:59.999999Z", "2024-01-02T00:00:00Z"),
        ("2024-01-02T00:30:00+02:00", "2024-01-02T00:00:00Z"),
    ],
)
def test_the_reindexer_s_schedule_is_midnight_utc(after: str, midnight: str) -> None:
    assert DailyMidnight().next(at(after)) == at(midnight)


@settings(deadline=None)
@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2037, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    st.sampled_from(
        [
            "*/7 * * * *",
            "30 1,2 * * *",
            "0 0 * * *",
            "15 */3 * * mon-fri",
            "59 23 28-31 * *",
            "0 0 13 * fri",
        ]
    ),
    st.sampled_from(
        [
            "UTC",
            "Europe/Berlin",
            "America/Havana",
            "Africa/Casablanca",
            "Pacific/Apia",
            "Australia/Lord_Howe",
        ]
    ),
)
def test_the_next_time_is_later_and_nothing_lies_between(
    after: datetime, text: str, zone: str
) -> None:
    schedule = CronSchedule(text, zone)
    found = schedule.next(after)
    assert found > after
    # Whoever asks just before it, or anywhere between, gets the same answer.
    assert schedule.next(found - timedelta(seconds=1)) == found
    assert schedule.next(after + (found - after) / 2) == found


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (PeriodicInterval(timedelta(hours=1, minutes=30)), "@every 1h30m"),
        (PeriodicInterval(timedelta(milliseconds=250)), "@every 0.25s"),
        (CronSchedule("*/5 * * * *"), "*/5 * * * *"),
        (CronSchedule("0 9 * * *", "Europe/Berlin"), "CRON_TZ=Europe/Berlin 0 9 * * *"),
        (CronSchedule("TZ=Europe/Berlin 0 9 * * *"), "TZ=Europe/Berlin 0 9 * * *"),
    ],
)
def test_a_schedule_as_text(schedule: Schedule, text: str) -> None:
    assert cron_text(schedule) == text
    now = datetime(2026, 11, 22, 12, tzinfo=UTC)
    if text != "@every 0.25s":
        assert CronSchedule(text).next(now) == schedule.next(now)


def test_a_schedule_of_another_kind_as_text() -> None:
    assert cron_text(NeverSchedule()) == "NeverSchedule()"
