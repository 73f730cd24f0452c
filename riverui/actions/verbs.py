"""The records that describe what can be done to jobs and to queues.

One record holds everything particular to a verb: its name and right, the jobs it fits, its words,
its key and icon, its parameters, and the storage call that does it. Pages, API, operations, rights
and keys are made from the records, so that a new verb is a new record with its storage call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from riverui.domain.jobs import JobState
from riverui.domain.queues import QueueRow, Reason
from riverui.errors import BadRequest
from riverui.storage.interface import Executor
from riverui.storage.interface.job_actions import JobChanges, SkipReason

Given = Mapping[str, Any]
"""The parameters of a verb: the name of each that was given → its value."""

NO_PARAMETERS: Given = {}
"""The parameters of a verb that has none."""


class VerbParameter(Struct, frozen=True, kw_only=True, eq=False):
    """One parameter of a verb: a field of its form, and of its body in the API."""

    name: str
    label: str
    hint: str
    """What to fill in, in a few words."""
    refusal: str
    """The message for a value that is not valid."""
    numbers: range | None = None
    """The whole numbers that are valid; None if it is text."""
    max_length: int = 200
    """Characters of the text, at most."""
    accepts: Callable[[str], bool] = bool
    """Whether a text is valid."""
    suggest: Callable[[Executor], Awaitable[Sequence[str]]] | None = None
    """Return texts to choose from."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """Return the JSON schema of its value."""
        if self.numbers is not None:
            return {"type": "integer", "minimum": self.numbers[0], "maximum": self.numbers[-1]}
        return {"type": "string", "maxLength": self.max_length}

    def read(self, value: object) -> str | int:
        """Return the value of a form's text or of a JSON value; BadRequest if it is not valid."""
        if self.numbers is not None:
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
                value = int(value)
            if type(value) is int and value in self.numbers:
                return value
        elif isinstance(value, str) and self.accepts(value):
            return value
        raise BadRequest(self.refusal)


class JobVerb(Struct, frozen=True, kw_only=True, eq=False):
    """An action on jobs: on one, on selected ones, on all that match."""

    name: str
    """As in addresses, the right and the storage call (`job_<name>_many`)."""
    label: str
    icon: str
    key: str
    """The key that does it to the selected jobs, or to the job on the page."""
    fits: frozenset[JobState]
    """States of jobs on which it has an effect that a person may want."""
    call: Callable[[Executor, Sequence[int], Given], Awaitable[JobChanges]]
    """Do it to jobs in one statement; UniqueConflict and LockTimeout undo all of it."""
    done: str
    """Its past participle: "cancelled"."""
    changed: str
    """What happened, with `{jobs}` for "3 jobs" and `{given}` for its parameters."""
    effect: tuple[str, str]
    """What it will do to one job, and to several, in sentences for the confirmation."""
    summary: str
    """What the API's reference says of it."""
    allows: str
    """What its right lets a person do: "cancel jobs"."""
    unnamed: frozenset[JobState] | None = None
    """The states meant by a search without a state; None for all of `fits`."""
    tone: str = ""
    """`primary` for the most prominent button, `danger` for one that cannot be undone."""
    labels: Mapping[JobState, str] = field(default_factory=dict)
    """Labels for a job in these states, where they differ."""
    confirms: bool = False
    """Whether a person has to confirm it for selected jobs too, and not only for all that match."""
    reruns: bool = False
    """Whether the jobs run again, so that their failures can be counted."""
    removes: bool = False
    """Whether the jobs no longer exist afterwards."""
    parameters: tuple[VerbParameter, ...] = ()
    """Its parameters, of which at least one must be given."""
    caution: Callable[[Executor, Given], Awaitable[str]] | None = None
    """Return a warning if what was given is probably a mistake; empty otherwise."""
    refuses: Mapping[SkipReason, str] = field(default_factory=dict)
    """Messages for the reasons to reject a call for all or none, with `{id}` for the job's id. A
    job that was skipped for another reason needed no change, which is not an error.
    """
    fails: tuple[int, ...] = (404,)
    """Error statuses of its address in the API, besides those that every address has."""
    extension: bool = False
    """Whether River UI's API does not have it."""
    on_dead_letters: JobVerb | None = None
    """For a verb on dead letters, the verb on jobs whose right it needs."""

    @property
    def right(self) -> str:
        """Return the right that it needs."""
        return self.on_dead_letters.right if self.on_dead_letters else f"jobs.{self.name}"

    @property
    def asks(self) -> bool:
        """Return whether its button opens a form instead of doing it at once."""
        return self.confirms or bool(self.parameters)

    def states(self, named: Collection[JobState]) -> tuple[JobState, ...]:
        """Return the states of the jobs that it changes if a search names these states."""
        chosen = named or (self.fits if self.unnamed is None else self.unnamed)
        return tuple(state for state in JobState if state in self.fits and state in chosen)

    def label_in(self, state: JobState) -> str:
        """Return the label of its button for a job in this state."""
        return self.labels.get(state, self.label)

    def read(self, source: Mapping[str, object]) -> Given:
        """Return the parameters in a form or a JSON object; BadRequest if one is not valid, or if
        none is given although the verb requires one.
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
        """Return the parameters in words, such as "queue mailers, priority 2"."""
        return ", ".join(
            f"{parameter.label.lower()} {given[parameter.name]}"
            for parameter in self.parameters
            if parameter.name in given
        )


class QueueVerb(Struct, frozen=True, kw_only=True, eq=False):
    """An action on a queue, or on every queue."""

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
    call: Callable[[Executor, str, Reason], Awaitable[Sequence[str]]]
    """Do it to the queue with that name, `*` for every queue; return the names that changed."""
    done: str
    """Its past participle: "paused"."""
    hint: str
    """Its consequence, as a sentence for the notice; may be empty."""
    unchanged: str
    """Why a queue was not changed: "already paused"."""
    unchanged_all: str
    """The notice if no queue changed."""
    summary: str
    """What the API's reference says of it."""
    tone: str = ""
    """`primary` for the most prominent button."""
    asks: bool = False
    """Whether its button opens a form with a note."""
