"""Which jobs are in one sequence, by their args, kind and queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from riverui.engine.client import Client
from riverui.engine.insert.insert_opts import InsertManyParams, InsertOpts
from riverui.errors import InsertError
from riverui.features.sequences.engine.opts import SequenceOpts
from tests.engine.conftest import Task


@dataclass
class Order:
    """Args that are in sequence by themselves."""

    kind: ClassVar[str] = "order"
    customer: int
    number: int = 0

    @staticmethod
    def insert_opts() -> InsertOpts:
        return InsertOpts(sequence=SequenceOpts(by_args=["customer"]))


def keys(*jobs: InsertManyParams) -> list[str]:
    """Return the keys that jobs get."""
    client = Client("postgresql://nobody@127.0.0.1:9/nowhere")
    rows = [client.prepare_insert(job.args, job.insert_opts) for job in jobs]
    return [row.metadata["seq_key"] for row in rows]


def in_sequence(args: Any, queue: str = "default", **opts: Any) -> InsertManyParams:
    return InsertManyParams(args, InsertOpts(queue=queue, sequence=SequenceOpts(**opts)))


def test_without_options_a_kind_is_one_sequence() -> None:
    assert keys(in_sequence(Task("a")), in_sequence(Task("b"), queue="other")) == ["task", "task"]


def test_by_args_equal_args_are_one_sequence() -> None:
    same, other, third = keys(
        in_sequence(Task("a", 1), by_args=True),
        in_sequence(Task("a", 2), by_args=True),
        in_sequence(Task("a", 1), by_args=True),
    )
    assert same == third != other
    assert same.startswith("task:")
    first, second, missing, empty = keys(
        in_sequence(Task("a", 1), by_args=["value"]),
        in_sequence(Task("a", 2), by_args=["value"]),
        in_sequence(Task("a", 2), by_args=["unknown"]),
        in_sequence(Task("b", 3), by_args=["unknown"]),
    )
    assert first == second != missing == empty


def test_queues_and_kinds_distinguish_keys_if_used() -> None:
    one, two = keys(
        in_sequence(Task(), queue="one", by_queue=True),
        in_sequence(Task(), queue="two", by_queue=True),
    )
    assert one != two
    task, order = keys(
        in_sequence(Task(), queue="q", by_queue=True, exclude_kind=True),
        in_sequence(Order(1), queue="q", by_queue=True, exclude_kind=True),
    )
    assert task == order


def test_args_say_for_themselves_in_which_sequence_they_are() -> None:
    one, same, other, called = keys(
        InsertManyParams(Order(1, 1)),
        InsertManyParams(Order(1, 2), InsertOpts(queue="q")),
        InsertManyParams(Order(2, 1)),
        in_sequence(Order(2, 1)),
    )
    assert one == same != other
    assert called == "order"


@pytest.mark.parametrize(
    ("opts", "words"),
    [
        ({"by_args": "customer"}, "by_args must be True, or a list of keys"),
        ({"by_args": [1]}, "by_args must be True, or a list of keys"),
        ({"exclude_kind": True}, "exclude_kind needs by_args or by_queue"),
    ],
)
def test_options_that_cannot_be(opts: dict[str, Any], words: str) -> None:
    with pytest.raises(InsertError, match=words):
        keys(in_sequence(Task(), **opts))
