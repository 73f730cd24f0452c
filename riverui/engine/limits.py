"""How much the engine does at once and how often: figures that programs have no reason to change,
and tests have.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from riverui.engine.waiting import Backoff, backoff
from riverui.storage.interface.engine_params import INSERT_ROWS


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineLimits:
    """The figures of one client."""

    # Inserting
    insert_rows: int = INSERT_ROWS
    """Jobs in one statement: River's figure."""

    # Fetching
    fetch_rows: int = 1_000
    """Jobs in one statement: while the next ones are fetched, these are worked already."""
    fetch_first_rows: int = 100
    """Jobs in the first statement, while it is not known how large they are."""
    fetch_characters: int = 32 * 1024 * 1024
    """Args and metadata in one statement, if the next jobs are like the last: what a process can
    hold several times over.
    """
    set_aside_seconds: float = 60.0
    """Until a job that could not be fetched is tried again: somebody has to mend it first."""

    statement_timeout: timedelta = timedelta(seconds=10)
    """For each statement that fetches or completes: River's figure."""

    # Working
    process_load_seconds: float = 60.0
    """Within which a process of isolated jobs must have started, and again within which it must
    have imported the module of a worker.
    """
    process_term_seconds: float = 2.0
    """From SIGTERM to SIGKILL for the process of a job that does not end: as long as `finally`
    blocks may take.
    """

    # Finishing
    outcomes_at_once: int = 200
    """Outcomes that are written without waiting for more."""
    outcomes_wait_seconds: float = 0.05
    """How long fewer outcomes wait for more: about as long as nobody notices."""
    completions: int = 2_000
    """Jobs in one statement that just went well: more make it no faster."""
    completions_beside: int = 1_000
    """Such jobs that are written on a second connection if they pile up while the first one
    writes: so many are worth it.
    """
    feature_ends: int = 1_000
    """Such jobs in one transaction where a feature takes part: another is written beside it."""
    changes: int = 500
    """Outcomes of all other kinds in one statement, each with texts of its own."""
    changes_characters: int = 16 * 1024 * 1024
    """Errors, logs and outputs in one statement; a single output may have twice as many."""
    same_time: timedelta = timedelta(milliseconds=25)
    """Jobs that end so close together are written with the time of the last: Postgres is quicker at
    that, and nobody tells the difference.
    """
    outcomes_full: int = 10_000
    """Unwritten outcomes that fill the completer: jobs keep their slots then. River's figure."""
    outcomes_room: int = 5_000
    """Unwritten outcomes below which it has room again and slots are freed: River's figure."""

    # Trying again
    backoff: Backoff = backoff
    """How long after an error of the database outcomes are written and notifications listened to
    again.
    """

    # Looking
    look_seconds: float = 60.0
    """Between two looks for what a notification should have told: those are seldom lost."""
    look_seconds_without_notifier: float = 2.0
    """Where a look is all there is: River's figure."""
    results_least_seconds: float = 0.05
    """Between two looks at jobs that somebody waits for, at least: about as long as nobody notices.
    """
    results_most_seconds: float = 1.0
    """The same at most: so late is told of jobs whose ends nobody notifies of, such as Go's."""
    results_renew_seconds: float = 30.0
    """Until working clients are told anew which jobs somebody waits for: half of what they remember
    it for, and some may have started since.
    """
    results_linger_seconds: float = 60.0
    """How long ends of jobs are listened to after the last one has waited: somebody else may soon,
    and to connect costs more than to be idle.
    """
    look_for_lost_seconds: float = 300.0
    """For how long after a failed fetch jobs are looked for that it may have brought: TCP sends
    what it holds again after two minutes at most, and statements have their own limit.
    """
    look_for_lost_most_seconds: float = 20.0
    """Between two looks for them, at most: as between two signs of life."""
    keep_alive_seconds: float = 30.0
    """Between two signs of life of a client's producers to its features: River's figure."""
    look_for_clients_seconds: float = 60.0
    """Between two looks whether somebody has made the table of clients: about as long as nobody
    waits for it.
    """
    forget_clients_after: timedelta = timedelta(days=1)
    """How long clients that were declared dead are shown: until somebody has asked why."""
    stand_in_seconds: float = 15.0
    """Between two looks whether a client of another kind leads, so that riverui's own part of the
    maintenance needs a stand-in: as long as a leader's term.
    """
    figures_seconds: float = 10.0
    """Between two times that a client tells how its attempts ended: as much is lost with it."""
    look_for_figures_seconds: float = 60.0
    """Between two looks whether somebody has made the table of figures."""
    figures_refused_seconds: float = 600.0
    """The same where the client may not write to it."""
    loop_check_seconds: float = 1.0
    """Between two looks whether the event loop is blocked."""
    loop_blocked_seconds: float = 1.0
    """Standstill of the event loop that is worth a warning."""

    # Logs of jobs
    log_seconds: float = 2.0
    """Between two writes of one job's log, at least; also from its first line to the first
    write.
    """
    log_gap_seconds: float = 0.1
    """Between two writes of any jobs' logs, at least, so that outcomes come first."""
