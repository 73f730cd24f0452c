"""`riverui job retry`, `cancel`, `delete` and `move`: what is done to jobs, by their ids or to all
that a search finds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS
from riverui.cli.completion import known_queues
from riverui.cli.job.arguments import chunks, in_queue, in_state, of_kind, search_text
from riverui.cli.settings import settings_options
from riverui.errors import BadRequest, ConfigError, RiveruiError

if TYPE_CHECKING:
    from riverui.actions.verbs import JobVerb
    from riverui.cli.api.client import Api
    from riverui.domain.jobs import JobState
    from riverui.storage.interface.params import Count

_LOOK_SECONDS = 0.2
"""Seconds between two looks at an action under way: soon enough for short ones to feel prompt."""
_ENDED = ("done", "stopped", "failed")
"""What the status of an operation is at its end."""
_NO_FAULT = frozenset({"already_available", "finalized", "unchanged"})
"""Reasons to leave a job as it is that are no failure: it is there already, or has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """What was asked for."""

    verb: JobVerb
    ids: Sequence[str]
    search: str | None
    """None where ids are named."""
    given: Mapping[str, Any]
    yes: bool
    as_json: bool


@dataclass(kw_only=True, slots=True)
class Told:
    """What became of jobs, in sum."""

    changed: int = 0
    requested: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """How many were left as they are, by the reason."""
    samples: dict[str, list[int]] = field(default_factory=dict)
    """The ids of some of them."""

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add what the API answered."""
        self.changed += len(answer["changed"])
        self.requested += len(answer["requested"])
        for job in answer["skipped"]:
            reason = job["reason"]
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            self.samples.setdefault(reason, []).append(job["id"])

    @property
    def code(self) -> int:
        """Return the exit code: 1 where some job is not as it was asked for."""
        return 1 if self.skipped.keys() - _NO_FAULT else 0

    def lines(self, verb: JobVerb, given: Mapping[str, Any]) -> list[str]:
        """Return it in words, those of the pages."""
        from riverui.storage.interface.job_actions import SkipReason
        from riverui.web.live.action_notices import jobs, skipped

        parts = []
        if self.changed:
            parts.append(verb.changed.format(jobs=jobs(self.changed), given=verb.words(given)))
        if self.requested:
            s = "" if self.requested == 1 else "s"
            parts.append(f"{self.requested:,} running job{s} asked to stop")
        return [
            f"{', '.join(parts) or f'No job was {verb.done}'}.",
            *(
                skipped(number, SkipReason(reason), self.samples.get(reason, ())) + "."
                for reason, number in self.skipped.items()
            ),
        ]


def verb_command(
    name: str, help: str, *options: Callable[[click.Command], click.Command]
) -> click.Command:
    """Return the command of a verb with these further options: what it takes besides the jobs, and
    the queue of the jobs, unless its `--queue` is where they go.
    """

    @click.command(name, help=help)
    @click.argument("ids", nargs=-1, metavar="[ID|-]...")
    @click.option("--search", metavar="SEARCH", help="All jobs that match, in place of ids.")
    @in_state
    @of_kind
    @click.option("--yes", is_flag=True, help="Do not ask first.")
    @click.option("--json", "as_json", is_flag=True, help="What became of them, as JSON.")
    @click.pass_obj
    def command(
        environ: Mapping[str, str],
        /,
        ids: Sequence[str],
        search: str | None,
        states: Sequence[str],
        kinds: Sequence[str],
        yes: bool,
        as_json: bool,
        queues: Sequence[str] = (),
        **flags: Any,
    ) -> int:
        from riverui.actions.job_verbs import JOB_VERBS
        from riverui.cli.api.connect import asked_api

        verb = JOB_VERBS[name]
        named = {parameter.name: flags.pop(parameter.name) for parameter in verb.parameters}
        searches = search is not None or bool(states or kinds or queues)
        if bool(ids) == searches:
            raise ConfigError(
                f"say which jobs to {name}: by ids, or by --search, --state or --kind"
            )
        try:
            given = verb.read(named)
        except BadRequest as error:
            raise ConfigError(str(error)) from None
        order = Order(
            verb=verb,
            ids=ids,
            search=search_text([search or ""], states=states, queues=queues, kinds=kinds)
            if searches
            else None,
            given=given,
            yes=yes,
            as_json=as_json,
        )
        with asked_api(environ, flags) as api:
            return _all_matching(api, order) if searches else _chosen(api, order)

    for option in options:
        command = option(command)
    return settings_options(settings=CLIENT_SETTINGS)(command)


def _chosen(api: Api, order: Order) -> int:
    """Do it to jobs by their ids, chunk by chunk, each in one transaction."""
    from riverui.web.live.action_notices import jobs

    told, answers = Told(), []
    if order.verb.confirms and "-" in order.ids and not order.yes:
        raise ConfigError(f"ids come from standard input: --yes says to {order.verb.name} them")
    if order.verb.confirms:
        _ask(order, f"{order.verb.label} {jobs(len(set(order.ids)))}?")
    for chunk in chunks(order.ids):
        answer = api.send(
            "POST",
            f"/api/jobs/{order.verb.name}",
            {"ids": chunk, "partial": True, **order.given},
        )
        answers.append(answer)
        told.add(answer)
    if order.as_json:
        _dump(
            {
                name: [each for answer in answers for each in answer[name]]
                for name in ("changed", "requested", "skipped")
            }
        )
    else:
        click.echo("\n".join(told.lines(order.verb, order.given)))
    return told.code


def _all_matching(api: Api, order: Order) -> int:
    """Do it to all jobs that a search finds, by an operation of the dashboard's."""
    from riverui.storage.interface.params import CountKind
    from riverui.web.search import query
    from riverui.web.view.format import jobs_by_state

    verb, search = order.verb, order.search or ""
    parsed = query.parse(search, now=datetime.now(UTC))
    states = verb.states(parsed.states or ())
    counts = _counts(api, search, states)
    if not any(count.value or count.kind is CountKind.AT_LEAST for count in counts.values()):
        if order.as_json:
            _dump({"operation": None})
        else:
            click.echo(f"No job matches that could be {verb.done}.")
        return 0
    which = f"matching {search}" if search else "in all"
    _ask(order, f"{verb.label} {jobs_by_state(counts)} {which}?")
    # The states of the question go along: a dashboard of another version may mean others.
    asked = {"query": parsed.without_states(), "state": states, **order.given}
    begun = api.send("POST", f"/api/jobs/{verb.name}", asked)
    ended = _until_it_ended(api, begun["operation"])
    if order.as_json:
        _dump({"operation": ended})
    else:
        told = Told(
            changed=ended["changed"],
            requested=ended["requested"],
            skipped=ended["skipped"],
            samples=ended["skipped_samples"],
        )
        click.echo("\n".join(told.lines(verb, order.given)))
    if ended["status"] == "failed":
        raise RiveruiError(ended["error"] or "the action failed")
    if ended["status"] == "stopped":
        raise RiveruiError("it was stopped before it was through")
    return 1 if ended["skipped"].keys() - _NO_FAULT else 0


def _counts(api: Api, search: str, states: Sequence[JobState]) -> Mapping[JobState, Count]:
    """Return how many jobs of these states match."""
    from riverui.storage.interface.params import Count, CountKind

    if search:
        found = api.get("/api/progress", {"q": search})
        kind = CountKind.EXACT if found["exact"] else CountKind.AT_LEAST
        return {state: Count(value=found["states"][state.value], kind=kind) for state in states}
    counts = api.get("/api/states")
    return {state: Count(value=counts[state.value]["count"]) for state in states}


def _until_it_ended(api: Api, operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operation as it has ended; Ctrl-C stops it after the batch at hand."""
    path = f"/api/operations/{operation['id']}"
    try:
        while operation["status"] not in _ENDED:
            time.sleep(_LOOK_SECONDS)
            operation = api.get(path)["operation"]
            if sys.stderr.isatty():
                done = operation["changed"] + operation["requested"]
                click.echo(f"\r{done:,} of {operation['total']:,} jobs ", nl=False, err=True)
    except KeyboardInterrupt:
        operation = api.send("POST", f"{path}/stop")["operation"]
        while operation["status"] not in _ENDED:
            time.sleep(_LOOK_SECONDS)
            operation = api.get(path)["operation"]
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    return operation


def _ask(order: Order, question: str) -> None:
    """Ask the person at the terminal; RiveruiError for a no, ConfigError where nobody is there."""
    from riverui.cli.terminal import ask, one_line

    if order.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{one_line(question)} Nobody is here to answer: --yes says so")
    ask(one_line(question))


def _dump(value: object) -> None:
    import msgspec

    from riverui.cli.terminal import json_line

    click.echo(json_line(msgspec.json.encode(value)))


_WHICH = """
Name the jobs by their ids, - for ids from standard input, or all that match --search, --state or
--kind: this says how many there are in each state, and asks first. Exit code 1 where some job was
left as it is for another reason than that there was nothing to do.
"""

retry = verb_command(
    "retry",
    "Run jobs again now: failed, ended, scheduled and waiting ones. Of those that match, the failed"
    f" and cancelled ones unless a state is named.\n{_WHICH}",
    in_queue,
)
cancel = verb_command(
    "cancel",
    f"Cancel jobs that wait, and ask running ones to stop.\n{_WHICH}",
    in_queue,
)
delete = verb_command(
    "delete",
    f"Delete jobs with their args, errors and logs; running ones are left.\n{_WHICH}",
    in_queue,
)
move = verb_command(
    "move",
    f"Move waiting jobs to another queue, or give them another priority.\n{_WHICH}",
    click.option(
        "--queue",
        metavar="NAME",
        help="The queue to move them to.",
        shell_complete=known_queues,
    ),
    click.option("--priority", metavar="1-4", help="Their new priority; 1 is worked first."),
)
