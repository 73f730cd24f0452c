"""Limits and intervals of the engine, which programs have no reason to change, but tests do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from riverui.engine.waiting import Backoff, backoff
from riverui.storage.interface.engine_params import INSERT_ROWS


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLimits:
    """The limits of one client."""

    # Inserting
    insert_rows: int = INSERT_ROWS
    """Jobs per statement: River's figure."""

    # Fetching
    fetch_rows: int = 1_000
    """Jobs per statement: they are worked while the next ones are fetched."""
    fetch_first_rows: int = 100
    """Jobs in the first statement, while their size is unknown."""
    fetch_characters: int = 32 * 1024 * 1024
    """Characters of args and metadata per statement, if the next jobs are like the last: a process
    can hold this several times over.
    """
    fetches_per_second: float = 1_000.0
    """Most statements per second that fetch, of all queues of a client: as many as a database on
    the same machine answers one after the other.
    """
    set_aside_seconds: float = 60.0
    """Seconds before a job that could not be fetched is tried again: a person has to repair it
    first.
    """

    statement_timeout: timedelta = timedelta(seconds=10)
    """For each statement that fetches or completes: River's figure."""

    # Working
    process_load_seconds: float = 60.0
    """Seconds in which a process of isolated jobs must start, and again in which it must import the
    module of a worker.
    """
    process_term_seconds: float = 2.0
    """Seconds from SIGTERM to SIGKILL for the process of a job that does not end: enough for
    `finally` blocks.
    """

    # Finishing
    outcomes_at_once: int = 200
    """Outcomes that are written without waiting for more."""
    outcomes_wait_seconds: float = 0.05
    """Seconds that fewer outcomes wait for more: about the shortest delay that a person notices."""
    completions: int = 2_000
    """Successful jobs per statement: a larger number is no faster."""
    completions_beside: int = 1_000
    """Successful jobs that are written on a second connection if that many queue up while the first
    one writes.
    """
    feature_ends: int = 1_000
    """Successful jobs per transaction if a feature takes part: another is written at the same
    time.
    """
    changes: int = 500
    """Other outcomes per statement, each with its own texts."""
    changes_characters: int = 16 * 1024 * 1024
    """Characters of errors, logs and outputs per statement; a single output may have twice as
    many.
    """
    same_time: timedelta = timedelta(milliseconds=25)
    """Jobs that end this close together are written with the time of the last, which is faster in
    Postgres, and too short to matter.
    """
    outcomes_full: int = 10_000
    """Unwritten outcomes at which the completer is full, and jobs keep their slots: River's
    figure.
    """
    outcomes_room: int = 5_000
    """Unwritten outcomes below which it accepts more, and slots are freed: River's figure."""

    # Retrying
    backoff: Backoff = backoff
    """The delay after a database error before outcomes are written, or notifications listened to,
    again.
    """

    # Polling
    look_seconds: float = 60.0
    """Seconds between polls with a notifier: they find what lost notifications missed, which are
    rare.
    """
    look_seconds_without_notifier: float = 2.0
    """Seconds between polls without a notifier: River's figure."""
    results_least_seconds: float = 0.05
    """Shortest pause between polls of jobs that are waited for: about the shortest delay that a
    person notices.
    """
    results_most_seconds: float = 1.0
    """Longest such pause: how late ends without a notification, such as Go's, are found."""
    results_renew_seconds: float = 30.0
    """Seconds between notifications of which jobs are waited for: half of how long working clients
    remember them, and some may have started since.
    """
    results_linger_seconds: float = 60.0
    """Seconds to keep listening after the last wait: another may follow, and connecting costs more
    than an idle connection.
    """
    look_for_lost_seconds: float = 300.0
    """Seconds after a failed fetch during which the jobs that it may have fetched are looked for:
    TCP retransmits for two minutes at most, and statements have their own limit.
    """
    look_for_lost_most_seconds: float = 20.0
    """Longest pause between looking for them: as between two heartbeats."""
    keep_alive_seconds: float = 30.0
    """Seconds between a client's keep-alive calls to its features: River's figure."""
    look_for_clients_seconds: float = 60.0
    """Seconds between checks whether the table of clients has been created: nobody waits for it."""
    forget_clients_after: timedelta = timedelta(days=1)
    """How long clients that were declared dead are shown, for a person to find out why."""
    stand_in_seconds: float = 15.0
    """Seconds between checks whether a client of another kind leads, so that riverui's own part of
    the maintenance needs a stand-in: as long as a leader's term.
    """
    figures_seconds: float = 10.0
    """Seconds between two reports of a client on how attempts ended: up to this much is lost with
    it.
    """
    look_for_figures_seconds: float = 60.0
    """Seconds between checks whether the table of figures has been created."""
    figures_refused_seconds: float = 600.0
    """The same if the client lacks the privilege to write to it."""
    loop_check_seconds: float = 1.0
    """Seconds between checks whether the event loop is blocked."""
    loop_blocked_seconds: float = 1.0
    """Seconds that the event loop must be blocked for a warning."""

    # Logs of jobs
    log_seconds: float = 2.0
    """Seconds between two writes of one job's log, and from its first line to the first write."""
    log_gap_seconds: float = 0.1
    """Seconds between two writes of any jobs' logs, so that outcomes come first."""
