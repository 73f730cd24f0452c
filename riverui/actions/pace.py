"""How fast an action on all matching jobs shall go: what forms and programs may ask for."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.domain.pace import CANARY, PER_MINUTE, PERCENT, STOP_FAILING, Pace
from riverui.errors import BadRequest

RATE = VerbParameter(
    name="per_minute",
    label="Jobs a minute, at most",
    hint="no limit",
    refusal=f"Jobs a minute must be a whole number from 1 to {PER_MINUTE[-1]:,}.",
    numbers=PER_MINUTE,
)
TRIAL = VerbParameter(
    name="canary",
    label="Jobs to try first",
    hint="none",
    refusal=f"The jobs to try first must be a whole number from 1 to {CANARY[-1]}.",
    numbers=CANARY,
)
STOP = VerbParameter(
    name="stop_failing",
    label="Stop if more fail again, %",
    hint=f"{STOP_FAILING} after a trial",
    refusal="The percentage of jobs that may fail again must be a whole number from 1 to 100.",
    numbers=PERCENT,
)


def pace_parameters(verb: JobVerb) -> tuple[VerbParameter, ...]:
    """Return what may be asked for with this verb: only jobs that run again can fail again."""
    return (RATE, TRIAL, STOP) if verb.reruns else (RATE,)


def read_pace(verb: JobVerb, source: Mapping[str, object]) -> Pace:
    """Return the pace that a form or a JSON object asks for; BadRequest where it cannot be kept."""
    for parameter in (TRIAL, STOP):
        if source.get(parameter.name) not in (None, "") and not verb.reruns:
            raise BadRequest(f"`{parameter.name}` means nothing to {verb.name}: no job runs again.")
    return Pace.of(
        {
            parameter.name: parameter.read(value)
            for parameter in pace_parameters(verb)
            if (value := source.get(parameter.name)) not in (None, "")
        }
    )
