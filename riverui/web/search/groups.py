"""The jobs of an error group as a condition on jobs: no field of a job tells its group, so they are
named by their ids.
"""

from __future__ import annotations

from typing import NamedTuple

from riverui.features.error_groups.domain.groups import ErrorGroup
from riverui.storage.interface.params import Field, Term
from riverui.web.search import query

MOST_TEXT = 60_000
"""Characters that the ids may take: the table of operations keeps texts of 64 kB."""
MOST_LISTED = 100
"""Jobs that an address of the job list can name."""
_TITLE = 200
"""Characters of a group's title that stand for it."""


class GroupTerm(NamedTuple):
    """The newest jobs of a group."""

    term: Term
    title: str


def group_term(group: ErrorGroup) -> GroupTerm:
    """Return the condition that a job is one of the group's: of more than fit, the newest."""
    ids, size = [], 0
    for job in group.jobs:
        size += len(str(job.id)) + 1
        if size > MOST_TEXT:
            break
        ids.append(job.id)
    return GroupTerm(query.equal(Field.ID, *ids), group.signature.title[:_TITLE])


def listed_term(group: ErrorGroup) -> Term:
    """Return the condition for the newest jobs of the group, as many as an address can name."""
    ids, size = [], 0
    for job in group.jobs[:MOST_LISTED]:
        size += len(str(job.id)) + 1
        if size > query.MAX_LENGTH - len("id:"):
            break
        ids.append(job.id)
    return query.equal(Field.ID, *ids)
