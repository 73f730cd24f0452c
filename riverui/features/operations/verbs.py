"""The pace of an operation as a parameter of forms and API requests."""

from __future__ import annotations

from collections.abc import Mapping

from riverui.actions.job_verbs import JOB_VERBS
from riverui.actions.verbs import JobVerb, VerbParameter
from riverui.errors import BadRequest
from riverui.features.dead_letters.verbs import DEAD_LETTER_VERBS
from riverui.features.operations.domain import CANARY, PER_MINUTE, PERCENT, STOP_FAILING, Pace

OPERATION_VERBS: Mapping[str, JobVerb] = {**JOB_VERBS, **DEAD_LETTER_VERBS}
"""Every verb that can be applied to all matches."""

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
    """Return the parameters of the pace for this verb: only jobs that run again can fail again."""
    return (RATE, TRIAL, STOP) if verb.reruns else (RATE,)


def read_pace(verb: JobVerb, source: Mapping[str, object]) -> Pace:
    """Return the pace that a form or a JSON object asks for; raise BadRequest if it is not
    valid.
    """
    asked = {name: source[name] for name in Pace.__slots__ if source.get(name) not in (None, "")}
    parameters = {parameter.name: parameter for parameter in pace_parameters(verb)}
    if unknown := sorted(asked.keys() - parameters.keys()):
        raise BadRequest(f"`{unknown[0]}` does not apply to {verb.name}: no job runs again.")
    return Pace.read({name: parameters[name].read(value) for name, value in asked.items()})
