"""The records of the verbs: everything that is made from them has what it needs."""

from __future__ import annotations

import re

import pytest

from riverui import create_app
from riverui.actions.job_verbs import JOB_VERBS, MOVE, RETRY, SKIPPED
from riverui.actions.queues import QUEUE_VERBS
from riverui.actions.verbs import JobVerb, QueueVerb
from riverui.domain.jobs import JobState
from riverui.errors import BadRequest
from riverui.storage.interface import Jobs, Queues
from riverui.storage.interface.job_actions import SkipReason
from riverui.web.api.openapi import document, endpoints
from riverui.web.assets import STATIC
from riverui.web.auth.rights import RIGHTS
from riverui.web.http.routes import GuardedRoute
from tests.web.stand_ins import DeadDriver

ICONS = set(re.findall(r'<symbol id="([^"]+)"', (STATIC / "icons.svg").read_text()))
ENTRIES = {
    entry.name: entry
    for entry in create_app(DeadDriver(), no_auth=True).routes
    if isinstance(entry, GuardedRoute)
}
API = document(endpoints(ENTRIES.values()))


@pytest.mark.parametrize("verb", JOB_VERBS.values(), ids=list(JOB_VERBS))
def test_a_verb_on_jobs_has_its_addresses_right_words_and_call(verb: JobVerb) -> None:
    assert JOB_VERBS[verb.name] is verb
    addresses = {
        f"jobs.{verb.name}": f"/jobs/{verb.name}",
        f"jobs.bulk_{verb.name}": f"/jobs/bulk/{verb.name}",
        f"api.jobs.{verb.name}": f"/api/jobs/{verb.name}",
    }
    for name, path in addresses.items():
        assert (ENTRIES[name].path, ENTRIES[name].right) == (path, verb.right)
    assert RIGHTS[verb.right] == verb.allows
    told = API["paths"][f"/api/jobs/{verb.name}"]["post"]
    (ids, query) = told["requestBody"]["content"]["application/json"]["schema"]["anyOf"]
    for body, field in ((ids, "ids"), (query, "query")):
        schema = API["components"]["schemas"][body["$ref"].rpartition("/")[2]]
        named = {parameter.name for parameter in verb.parameters}
        assert {field} == set(schema["required"])
        assert {field, *named} <= schema["properties"].keys()
    assert hasattr(Jobs, f"{verb.name}_many")
    assert verb.icon in ICONS
    assert verb.fits <= set(JobState)
    assert verb.labels.keys() <= verb.fits
    assert verb.tone in ("", "primary", "danger")
    assert "{jobs}" in verb.changed
    for sentence in (*verb.effect, verb.summary, *verb.refuses.values()):
        assert sentence.endswith(".") or ";" in sentence, sentence


def test_each_verb_has_a_key_of_its_own() -> None:
    keys = [verb.key for verb in JOB_VERBS.values()]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set("jkxag./?"), "the pages use these for other things"


def test_every_reason_to_skip_a_job_has_words() -> None:
    assert set(SKIPPED) == set(SkipReason)


@pytest.mark.parametrize("verb", QUEUE_VERBS.values(), ids=list(QUEUE_VERBS))
def test_a_verb_on_queues_has_its_addresses_right_and_call(verb: QueueVerb) -> None:
    assert QUEUE_VERBS[verb.name] is verb
    for prefix in ("", "api."):
        assert ENTRIES[f"{prefix}queues.{verb.name}"].right == verb.right
    assert verb.right in RIGHTS
    assert f"/api/queues/{{name}}/{verb.name}" in API["paths"]
    assert hasattr(Queues, verb.name)
    assert verb.icon in ICONS


@pytest.mark.parametrize(
    ("source", "given", "words"),
    [
        ({"queue": "mail_1"}, {"queue": "mail_1"}, "queue mail_1"),
        ({"priority": "4", "queue": ""}, {"priority": 4}, "priority 4"),
        ({"priority": 1, "queue": None}, {"priority": 1}, "priority 1"),
        (
            {"queue": "q", "priority": 2, "ids": "7"},
            {"queue": "q", "priority": 2},
            "queue q, priority 2",
        ),
    ],
)
def test_what_a_verb_takes_is_read_from_forms_and_from_json(
    source: dict[str, object], given: dict[str, object], words: str
) -> None:
    assert MOVE.read(source) == given
    assert MOVE.words(given) == words


@pytest.mark.parametrize(
    "source",
    [
        {},
        {"queue": "", "priority": None},
        {"queue": "Mail"},
        {"queue": "a" * 65},
        {"queue": "a--b"},
        {"queue": "*"},
        {"queue": 7},
        {"queue": ["a"]},
        {"queue": "a\n"},
        {"priority": 0},
        {"priority": 5},
        {"priority": "5"},
        {"priority": 2.0},
        {"priority": True},
        {"priority": "٢"},
        {"priority": "9" * 5000},
        {"priority": {}},
        {"queue": "fine", "priority": "x"},
    ],
)
def test_what_a_verb_cannot_take(source: dict[str, object]) -> None:
    with pytest.raises(BadRequest):
        MOVE.read(source)


def test_a_verb_without_parameters_passes_over_whatever_is_sent() -> None:
    assert RETRY.read({"queue": 1, "priority": "x"}) == {}
