"""The form of a new job: its initial values, and reading the job from it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime

from riverui.actions.new_jobs import NewJob, NewJobUnique
from riverui.domain.jobs import JobShowRow, JobState
from riverui.domain.json import indented
from riverui.domain.sealed_args import sealed_args
from riverui.errors import BadRequest, JobRefused
from riverui.web.http.forms import Form
from riverui.web.search import time_terms
from riverui.web.view.redaction import REDACTED, Redaction

COUNTED = (JobState.AVAILABLE, JobState.PENDING, JobState.RUNNING, JobState.SCHEDULED)
"""States in which a unique job always counts, as in River."""
CHOSEN = (JobState.COMPLETED, JobState.RETRYABLE, JobState.CANCELLED, JobState.DISCARDED)
"""States in which the form lets a unique job count."""
COPIED_ARGS = "[encrypted args, copied unchanged]"
"""Placeholder in the form for the encrypted args of the job that it was filled in from."""
_DEFAULT_STATES = frozenset({"completed", "retryable"})
"""Those of `CHOSEN` that count by default, as in River."""
_SPAN = re.compile(r"(?:in +)?\+?((?:[0-9]+(?:\.[0-9]+)?[smhdw])+)", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_TIME_HINT = "Write now, a span such as 10m or 2h, or a time such as 2026-11-21T10:00Z."


@dataclass(frozen=True, kw_only=True, slots=True)
class NewJobForm:
    """The fields of the form, as text."""

    kind: str = ""
    args: str = "{}"
    queue: str = "default"
    priority: str = "1"
    when: str = ""
    tags: str = ""
    max_attempts: str = ""
    unique: str = ""
    """"1" where the job is to be unique."""
    by_args: str = "1"
    by_queue: str = ""
    by_period: str = ""
    states: frozenset[str] = _DEFAULT_STATES
    metadata: str = ""


def posted(fields: Form) -> NewJobForm:
    """Return the form with the posted fields."""
    names = ("kind", "args", "queue", "priority", "when", "tags", "max_attempts", "unique")
    more = ("by_args", "by_queue", "by_period", "metadata")
    texts = {name: fields.get(name, "").strip() for name in (*names, *more)}
    # Browsers send CR LF between the lines of a text.
    texts |= {name: texts[name].replace("\r\n", "\n") for name in ("args", "metadata")}
    return NewJobForm(**texts, states=frozenset(fields.getlist("state")))


def like(job: JobShowRow, redaction: Redaction) -> tuple[NewJobForm, tuple[str, ...]]:
    """Return the form for a job like another, and notes on what was not copied."""
    args, notes = "{}", []
    sealed = sealed_args(job.args.text, job.args.size)
    if sealed is not None:
        args = COPIED_ARGS
        notes.append(
            f"Its args are encrypted ({sealed.words}) and are copied unchanged, unless you enter"
            " others."
        )
    elif not job.args.complete:
        notes.append("Its args are too long to edit in a browser: start from {}.")
    else:
        args = redaction.text(job.args.text)
        if args != job.args.text:
            notes.append(f"Its secrets are not filled in: replace each “{REDACTED}”.")
        args = indented(args)
    if job.unique_key is not None:
        notes.append("It is unique; a new job is not unless you choose so below.")
    if job.tags_dropped:
        notes.append("It has too many tags: only some are filled in.")
    form = NewJobForm(
        kind=job.kind,
        args=args,
        queue=job.queue,
        priority=str(job.priority),
        tags=" ".join(job.tags),
        max_attempts=str(job.max_attempts),
    )
    return form, tuple(notes)


def read(form: NewJobForm, redaction: Redaction, now: datetime) -> NewJob:
    """Return the job read from the form. Raises JobRefused, which names the invalid field."""
    if json.dumps(REDACTED) in form.args:
        raise JobRefused(
            f"Replace each “{REDACTED}” by its real value: secrets are not filled in.",
            field="args",
        )
    return NewJob(
        kind=form.kind,
        args=form.args,
        max_attempts=_number(form.max_attempts, "max_attempts", "The number of attempts", 32_767),
        metadata=form.metadata or "{}",
        priority=_number(form.priority, "priority", "The priority", 4),
        queue=form.queue or None,
        scheduled_at=_when(form.when, now),
        tags=tuple(re.split(r"[\s,]+", form.tags)) if form.tags else (),
        unique=_unique(form, now) if form.unique else None,
    )


def _unique(form: NewJobForm, now: datetime) -> NewJobUnique:
    period = _when(form.by_period, now, field="by_period")
    return NewJobUnique(
        by_args=bool(form.by_args),
        by_queue=bool(form.by_queue),
        by_period=None if period is None else period - now,
        by_state=(*COUNTED, *(state for state in CHOSEN if state.value in form.states)),
    )


def _number(text: str, field: str, name: str, most: int) -> int | None:
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= most:
        raise JobRefused(f"{name} must be a whole number from 1 to {most:,}.", field=field)
    return int(text)


def _when(text: str, now: datetime, *, field: str = "when") -> datetime | None:
    """Return the time that a text names; None for now."""
    if text.lower() in ("", "now"):
        return None
    span = _SPAN.fullmatch(text)
    if span is None and field == "by_period":
        raise JobRefused("Write the period as a span such as 10m or 24h.", field=field)
    try:
        return time_terms.parse(f"+{span[1].lower()}" if span else text, now).start
    except BadRequest:
        raise JobRefused(f"“{text[:60]}” is not a time. {_TIME_HINT}", field=field) from None
