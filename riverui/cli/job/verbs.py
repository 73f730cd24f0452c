"""`riverui job retry`, `cancel`, `delete` and `move`: actions on jobs by id or by search."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from riverui.cli.api.connect import CLIENT_SETTINGS, open_api
from riverui.cli.completion import known_queues
from riverui.cli.job.arguments import chunks, in_queue, in_state, of_kind, search_text
from riverui.cli.settings import settings_options
from riverui.errors import BadRequest, ConfigError, RiveruiError

if TYPE_CHECKING:
    from riverui.actions.verbs import JobVerb
    from riverui.cli.api.client import Api
    from riverui.domain.jobs import JobState
    from riverui.storage.interface.params import Count

_POLL_SECONDS = 0.2
"""Seconds between two requests for a running operation: short ones end promptly."""
_ENDED = ("done", "stopped", "failed")
"""Final statuses of an operation."""
_NOT_FAILURES = frozenset({"already_available", "finalized", "unchanged"})
"""Reasons to skip a job that are not failures: it has the requested state, or has ended."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JobAction:
    """A verb and the jobs that it is applied to."""

    verb: JobVerb
    ids: Sequence[str]
    search: str | None
    """None if ids are given."""
    given: Mapping[str, Any]
    yes: bool
    as_json: bool


@dataclass(kw_only=True, slots=True)
class JobResult:
    """How many jobs were changed, and how many were not."""

    changed: int = 0
    requested: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    """How many were skipped, by reason."""
    samples: dict[str, list[int]] = field(default_factory=dict)
    """The ids of some of them."""

    def add(self, answer: Mapping[str, Any]) -> None:
        """Add an answer of the API."""
        self.changed += len(answer["changed"])
        self.requested += len(answer["requested"])
        for job in answer["skipped"]:
            reason = job["reason"]
            self.skipped[reason] = self.skipped.get(reason, 0) + 1
            self.samples.setdefault(reason, []).append(job["id"])

    @property
    def code(self) -> int:
        """Return the exit code: 1 if a job does not have the requested state."""
        return 1 if self.skipped.keys() - _NOT_FAILURES else 0

    def lines(self, verb: JobVerb, given: Mapping[str, Any]) -> list[str]:
        """Return the numbers in words, as on the pages."""
        from riverui.storage.interface.job_actions import SkipReason
        from riverui.web.http.action_notices import jobs, skipped

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
    """Return the command of a verb. `options` are the verb's parameters, and the queue of the jobs
    unless `--queue` is a parameter.
    """

    @click.command(name, help=help)
    @click.argument("ids", nargs=-1, metavar="[ID|-]...")
    @click.option("--search", metavar="SEARCH", help="All jobs that match, instead of ids.")
    @in_state
    @of_kind
    @click.option("--yes", is_flag=True, help="Do not ask first.")
    @click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
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
        action = JobAction(
            verb=verb,
            ids=ids,
            search=search_text([search or ""], states=states, queues=queues, kinds=kinds)
            if searches
            else None,
            given=given,
            yes=yes,
            as_json=as_json,
        )
        with open_api(environ, flags) as api:
            return _by_search(api, action) if searches else _by_ids(api, action)

    for option in options:
        command = option(command)
    return settings_options(settings=CLIENT_SETTINGS)(command)


def _by_ids(api: Api, action: JobAction) -> int:
    """Apply the verb to jobs by id, in one transaction for each chunk."""
    from riverui.web.http.action_notices import jobs

    result, answers = JobResult(), []
    if action.verb.confirms and "-" in action.ids and not action.yes:
        raise ConfigError(f"ids come from standard input: --yes says to {action.verb.name} them")
    if action.verb.confirms:
        _ask(action, f"{action.verb.label} {jobs(len(set(action.ids)))}?")
    for chunk in chunks(action.ids):
        answer = api.send(
            "POST",
            f"/api/jobs/{action.verb.name}",
            {"ids": chunk, "partial": True, **action.given},
        )
        answers.append(answer)
        result.add(answer)
    if action.as_json:
        _dump(
            {
                name: [each for answer in answers for each in answer[name]]
                for name in ("changed", "requested", "skipped")
            }
        )
    else:
        click.echo("\n".join(result.lines(action.verb, action.given)))
    return result.code


def _by_search(api: Api, action: JobAction) -> int:
    """Apply the verb to all jobs of a search, by an operation of the dashboard."""
    from riverui.storage.interface.params import CountKind
    from riverui.web.search import query
    from riverui.web.view.format import jobs_by_state

    verb, search = action.verb, action.search or ""
    parsed = query.parse(search, now=datetime.now(UTC))
    states = verb.states(parsed.states or ())
    counts = _counts(api, search, states)
    if not any(count.value or count.kind is CountKind.AT_LEAST for count in counts.values()):
        if action.as_json:
            _dump({"operation": None})
        else:
            click.echo(f"No job matches that could be {verb.done}.")
        return 0
    which = f"matching {search}" if search else "in all"
    _ask(action, f"{verb.label} {jobs_by_state(counts)} {which}?")
    # Send the states of the question: a dashboard of another version may have other defaults.
    asked = {"query": parsed.without_states(), "state": states, **action.given}
    begun = api.send("POST", f"/api/jobs/{verb.name}", asked)
    ended = _wait_for(api, begun["operation"])
    if action.as_json:
        _dump({"operation": ended})
    else:
        result = JobResult(
            changed=ended["changed"],
            requested=ended["requested"],
            skipped=ended["skipped"],
            samples=ended["skipped_samples"],
        )
        click.echo("\n".join(result.lines(verb, action.given)))
    if ended["status"] == "failed":
        raise RiveruiError(ended["error"] or "the action failed")
    if ended["status"] == "stopped":
        raise RiveruiError("it was stopped before it was through")
    return 1 if ended["skipped"].keys() - _NOT_FAILURES else 0


def _counts(api: Api, search: str, states: Sequence[JobState]) -> Mapping[JobState, Count]:
    """Return how many jobs of these states match."""
    from riverui.storage.interface.params import Count, CountKind

    if search:
        found = api.get("/api/progress", {"q": search})
        kind = CountKind.EXACT if found["exact"] else CountKind.AT_LEAST
        return {state: Count(value=found["states"][state.value], kind=kind) for state in states}
    counts = api.get("/api/states")
    return {state: Count(value=counts[state.value]["count"]) for state in states}


def _wait_for(api: Api, operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the operation after its end; Ctrl-C stops it after the current batch."""
    path = f"/api/operations/{operation['id']}"
    try:
        while operation["status"] not in _ENDED:
            time.sleep(_POLL_SECONDS)
            operation = api.get(path)["operation"]
            if sys.stderr.isatty():
                done = operation["changed"] + operation["requested"]
                click.echo(f"\r{done:,} of {operation['total']:,} jobs ", nl=False, err=True)
    except KeyboardInterrupt:
        operation = api.send("POST", f"{path}/stop")["operation"]
        while operation["status"] not in _ENDED:
            time.sleep(_POLL_SECONDS)
            operation = api.get(path)["operation"]
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    return operation


def _ask(action: JobAction, question: str) -> None:
    """Ask for confirmation; raise RiveruiError for a no, ConfigError without a terminal."""
    from riverui.cli.terminal import ask, one_line

    if action.yes:
        return
    if not sys.stdin.isatty():
        raise ConfigError(f"{one_line(question)} Nobody is here to answer: --yes says so")
    ask(one_line(question))


def _dump(value: object) -> None:
    import msgspec

    from riverui.cli.terminal import json_line

    click.echo(json_line(msgspec.json.encode(value)))


_JOBS_HELP = """
Choose jobs by their ids, - for ids from standard input, or by --search, --state or --kind, which
shows how many match in each state and asks for confirmation. Exit code 1 if a job was skipped,
unless no change was needed.
"""

VERB_COMMANDS = (
    verb_command(
        "retry",
        "Run jobs again now: failed, ended, scheduled and waiting ones. A search without a state"
        f" means failed and cancelled jobs.\n{_JOBS_HELP}",
        in_queue,
    ),
    verb_command(
        "cancel",
        f"Cancel waiting jobs, and ask running ones to stop.\n{_JOBS_HELP}",
        in_queue,
    ),
    verb_command(
        "delete",
        f"Delete jobs with their args, errors and logs; running ones are skipped.\n{_JOBS_HELP}",
        in_queue,
    ),
    verb_command(
        "move",
        f"Move waiting jobs to another queue, or give them another priority.\n{_JOBS_HELP}",
        click.option(
            "--queue",
            metavar="NAME",
            help="The queue to move them to.",
            shell_complete=known_queues,
        ),
        click.option("--priority", metavar="1-4", help="Their new priority; 1 is worked first."),
    ),
)
"""A command for each of JOB_VERBS, whose records are not loaded for `--help`."""
