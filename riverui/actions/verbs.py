"""The records that describe what can be done to jobs and to queues.

One record holds all that is particular to a verb: its name and right, the jobs it fits, its words,
its keys and icon, what it takes, and the storage call that does it. Pages, API, operations, rights
and keys are made from the records, so that a new verb is a new record with its storage call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueRow
from riverui.errors import BadRequest
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges, SkipReason

Given = Mapping[str, Any]
"""What a verb was told besides the jobs: the name of each parameter given → its value."""

NOTHING: Given = {}
"""What a verb without parameters is given."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class VerbParameter:
    """One thing that a verb takes besides the jobs: a field of its form and of its body in the
    API.
    """

    name: str
    label: str
    hint: str
    """What to fill in, in a few words."""
    refusal: str
    """What to answer where the value cannot be taken."""
    numbers: range | None = None
    """The whole numbers that it may be; None where it is text."""
    max_length: int = 200
    """Characters of the text, at most."""
    accepts: Callable[[str], bool] = bool
    """Whether the text can be taken."""
    suggest: Callable[[Executor], Awaitable[Sequence[str]]] | None = None
    """Reads texts to choose from."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema of its value."""
        if self.numbers is not None:
            return {"type": "integer", "minimum": self.numbers[0], "maximum": self.numbers[-1]}
        return {"type": "string", "maxLength": self.max_length}

    def read(self, value: object) -> str | int:
        """Return the value that a form's text or a JSON value means; BadRequest where it cannot be
        taken.
        """
        if self.numbers is not None:
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
                value = int(value)
            if type(value) is int and value in self.numbers:
                return value
        elif isinstance(value, str) and self.accepts(value):
            return value
        raise BadRequest(self.refusal)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class JobVerb:
    """One thing that can be done to jobs: to one, to chosen ones, to all that match."""

    name: str
    """As in addresses, the right and the storage call (`job_<name>_many`)."""
    label: str
    icon: str
    key: str
    """The key that does it to the selected jobs or to the job shown."""
    fits: frozenset[JobState]
    """States in which it does something that a person may want."""
    call: Callable[[Executor, Sequence[int], Given], Awaitable[JobChanges]]
    """Does it to jobs in one statement; UniqueConflict and LockTimeout undo the whole of it."""
    done: str
    """Its past participle: "cancelled"."""
    changed: str
    """What happened, with `{jobs}` for "3 jobs" and `{given}` for its parameters."""
    effect: tuple[str, str]
    """What it will do to one job, and to several, in sentences: what is asked before it is done."""
    summary: str
    """What the API's reference says of it."""
    allows: str
    """What its right lets a person do: "cancel jobs"."""
    unnamed: frozenset[JobState] | None = None
    """The states that a search without a state means; None for all that it fits."""
    tone: str = ""
    """`primary` for the button to be seen first, `danger` for one that cannot be undone."""
    labels: Mapping[JobState, str] = field(default_factory=dict)
    """Labels for a job in these states, where they differ."""
    confirms: bool = False
    """Whether a person is asked before it is done to chosen jobs, and not only before all that
    match.
    """
    reruns: bool = False
    """Whether the jobs run again, so that it can be watched whether they fail again."""
    removes: bool = False
    """Whether the jobs are gone afterwards."""
    parameters: tuple[VerbParameter, ...] = ()
    """What it takes besides the jobs, of which at least one must be given."""
    caution: Callable[[Executor, Given], Awaitable[str]] | None = None
    """Reads whether what was given is likely a mistake, and says so; empty where it is not."""
    refuses: Mapping[SkipReason, str] = field(default_factory=dict)
    """Reasons to refuse the call where it is all or nothing, with `{id}` for the job's; what is
    not here was no more to be done, which is no error to River.
    """
    fails: tuple[int, ...] = (404,)
    """Statuses of the API besides those of any address."""
    extension: bool = False
    """Whether River UI's API does not have it."""
    on_dead_letters: JobVerb | None = None
    """The verb on jobs whose right this one needs, where it is done to dead letters."""

    @property
    def right(self) -> str:
        """Return the right that it needs."""
        return self.on_dead_letters.right if self.on_dead_letters else f"jobs.{self.name}"

    @property
    def asks(self) -> bool:
        """Return whether its button opens a form instead of doing it at once."""
        return self.confirms or bool(self.parameters)

    def states(self, named: Collection[JobState]) -> tuple[JobState, ...]:
        """Return the states of the jobs that it is done to where a search names these states, or
        none.
        """
        chosen = named or (self.fits if self.unnamed is None else self.unnamed)
        return tuple(state for state in JobState if state in self.fits and state in chosen)

    def label_in(self, state: JobState) -> str:
        """Return the label of its button for a job in this state."""
        return self.labels.get(state, self.label)

    def read(self, source: Mapping[str, object]) -> Given:
        """Return what a form or a JSON object gives it; BadRequest where that cannot be taken, or
        where it is nothing though something is needed.
        """
        given = {
            parameter.name: parameter.read(value)
            for parameter in self.parameters
            if (value := source.get(parameter.name)) not in (None, "")
        }
        if self.parameters and not given:
            names = " or ".join(f"a {parameter.label.lower()}" for parameter in self.parameters)
            raise BadRequest(f"Nothing would change: give {names}.")
        return given

    def words(self, given: Given) -> str:
        """Return what was given in words, such as "queue mailers, priority 2"."""
        return ", ".join(
            f"{parameter.label.lower()} {given[parameter.name]}"
            for parameter in self.parameters
            if parameter.name in given
        )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class QueueVerb:
    """One thing that can be done to a queue, or to every queue."""

    name: str
    """As in addresses and the storage call (`queue_<name>`)."""
    label: str
    label_all: str
    """The label of the button for every queue."""
    icon: str
    right: str
    allows: str
    """What its right lets a person do: "pause and resume queues"."""
    fits: Callable[[QueueRow], bool]
    """Whether it changes such a queue."""
    call: Callable[[Executor, str], Awaitable[Sequence[str]]]
    """Does it to the queue of that name, `*` for every queue; gives the names that changed."""
    done: str
    """Its past participle: "paused"."""
    hint: str
    """What follows from it, as a sentence for the notice; may be empty."""
    unchanged: str
    """What a queue was that it did not change: "already paused"."""
    unchanged_all: str
    """What to say where no queue changed."""
    summary: str
    """What the API's reference says of it."""
    tone: str = ""
    """`primary` for the button to be seen first."""
