"""Args of older and newer versions beside one another, and rows read as types."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypedDict

import msgspec
import pydantic
import pytest

from riverui import ArgsKeys, InsertRequest, JobRow, Plugin, SyncClient, Unique, UniqueOpts
from riverui.actions.new_jobs import NewJob
from riverui.domain.jobs import JobState
from riverui.engine.args.job_args import decoder
from riverui.engine.insert.insert_opts import InsertOpts
from riverui.engine.insert.job_inserter import JobInserter
from riverui.engine.work.worker import Job
from riverui.errors import ArgsError, ConfigError, OutputError
from tests.engine.conftest import Playground
from tests.factory import job_row


def in_parts(args: dict[str, Any]) -> dict[str, Any]:
    """Turn version 1, with a name, into version 2, with its parts."""
    if args.get("version", 1) < 2:
        args["first"], _, args["last"] = args.pop("name").partition(" ")
    return args


class ForOldWorkers(Plugin):
    """Keeps in the args what workers of version 1 need, as long as there are any."""

    def insert_begin(self, request: InsertRequest) -> None:
        args = json.loads(request.encoded_args)
        args["name"] = f"{args['first']} {args['last']}"
        request.encoded_args = json.dumps(args)


@dataclass
class Greet:
    kind: ClassVar[str] = "greet"
    plugins: ClassVar[list[Plugin]] = [ForOldWorkers()]
    first: Annotated[str, Unique]
    last: str = ""
    version: int = 2

    @classmethod
    def upgrade(cls, args: dict[str, Any]) -> dict[str, Any]:
        return in_parts(args)


@dataclass
class OldGreet:
    kind: ClassVar[str] = "greet"
    name: str


class GreetModel(pydantic.BaseModel):
    kind: ClassVar[str] = "greet"
    first: str
    last: str = ""

    @staticmethod
    def upgrade(args: dict[str, Any]) -> dict[str, Any]:
        return in_parts(args)


class GreetStruct(msgspec.Struct):
    kind: ClassVar[str] = "greet"
    first: str
    last: str = ""

    @classmethod
    def upgrade(cls, args: dict[str, Any]) -> dict[str, Any]:
        return in_parts(args)


@dataclass
class Sort:
    kind: ClassVar[str] = "sort"
    strings: list[str] = field(default_factory=list)

    def upgrade(self) -> None:
        """Do something that has to do with no versions."""


class Sorted(TypedDict):
    strings: list[str]


def row(args: str = "{}", metadata: str = "{}") -> JobRow:
    return job_row(state=JobState.COMPLETED, args=args, kind="sort", metadata=metadata)


@pytest.mark.parametrize("cls", [Greet, GreetModel, GreetStruct])
def test_every_kind_of_args_reads_older_ones(cls: Any) -> None:
    read = decoder(cls)
    for text in (
        '{"name": "Ann Lee"}',
        '{"first": "Ann", "last": "Lee", "version": 2}',
        '{"first": "Ann", "last": "Lee", "name": "Ann Lee", "version": 2}',
    ):
        found = read(text)
        assert isinstance(found, cls)
        assert (found.first, found.last) == ("Ann", "Lee")
    with pytest.raises(ArgsError, match="expected an object"):
        read("[1]")
    with pytest.raises(KeyError):
        read("{}")


def test_an_upgrade_that_returns_no_object_is_refused() -> None:
    @dataclass
    class Wrong:
        kind: ClassVar[str] = "wrong"

        @classmethod
        def upgrade(cls, args: dict[str, Any]) -> None: ...

    with pytest.raises(ArgsError, match="the args do not fit Wrong: expected an object, got null"):
        decoder(Wrong)("{}")


async def test_old_rows_and_new_ones_are_worked_by_new_code(play: Playground) -> None:
    seen: list[tuple[str, str]] = []

    async def greet(job: Job[Greet]) -> None:
        seen.append((job.args.first, job.args.last))

    play.workers.work(Greet)(greet)
    old = await play.work(args=OldGreet("Ann Lee"))
    unique = InsertOpts(unique_opts=UniqueOpts(by_args=True))
    new = await play.client.insert(Greet("Bob", "Ray"), unique)
    with SyncClient(play.database_url) as sync:
        third = sync.insert(Greet("Cid", "May"))
    dashboards = await JobInserter(play.client).insert(
        NewJob(kind="greet", args='{"name": "Dee Fox"}')
    )
    for result in (new, third, dashboards):
        await play.event(result.job.id)
    assert seen == [("Ann", "Lee"), ("Bob", "Ray"), ("Cid", "May"), ("Dee", "Fox")]
    assert old["args"] == {"name": "Ann Lee"}, "a row keeps its own"
    for result, name in ((new, "Bob Ray"), (third, "Cid May"), (dashboards, "Dee Fox")):
        stored = (await play.row(result.job.id))["args"]
        assert stored["name"] == name, "so that old code can work new rows"
        assert stored["version"] == 2
    again = await play.client.insert(Greet("Bob", "Fay"), unique)
    assert again.unique_skipped_as_duplicate, "what is added counts for no key"


def test_a_row_s_args_as_their_type() -> None:
    assert row('{"strings": ["b", "a"]}').args_as(Sort) == Sort(["b", "a"])
    assert row('{"name": "Ann Lee"}').args_as(Greet) == Greet("Ann", "Lee")
    assert row('{"a": 1}').args_as(dict) == {"a": 1}
    with pytest.raises(ArgsError, match="the args do not fit Sort: strings: expected a list"):
        row('{"strings": 5}').args_as(Sort)
    with pytest.raises(ArgsError, match="encrypted"):
        row(ArgsKeys([bytes(32)]).seal('{"strings": []}')).args_as(Sort)
    with pytest.raises(ConfigError, match="int cannot be job args"):
        row().args_as(int)


def test_a_row_s_output_as_a_type() -> None:
    done = row(metadata='{"output": {"strings": ["a", "b"]}, "other": 1}')
    assert done.output_as(Sort) == Sort(["a", "b"])
    assert done.output_as(Sorted) == {"strings": ["a", "b"]}
    assert row(metadata='{"output": [1, 2]}').output_as(list[int]) == [1, 2]
    with pytest.raises(OutputError, match=r"the output does not fit list.*: 0: expected"):
        row(metadata='{"output": ["a"]}').output_as(list[int])
    with pytest.raises(OutputError, match="does not fit Sort: expected an object, got null"):
        row().output_as(Sort)
    with pytest.raises(ConfigError, match="Playground cannot be read from JSON"):
        row().output_as(Playground)
