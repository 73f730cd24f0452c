"""The search grammar: what people write, what it means, and what is said about nonsense."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from riverui.domain.jobs import JobState
from riverui.errors import BadRequest
from riverui.storage.interface.params import Field, JobCursor, JobFilter, JobOrder, Op, Term
from riverui.web.search import json_terms, query
from tests.scale import scaled

NOW = datetime(2026, 11, 21, 12, 30, 15, 250_000, tzinfo=UTC)
TODAY = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)


def terms(text: str) -> tuple[Term, ...]:
    search = query.parse(text, now=NOW)
    assert not search.errors, search.errors
    return search.terms


def error(text: str) -> str:
    errors = query.parse(text, now=NOW).errors
    assert errors, text
    assert all(0 <= found.start < found.end <= len(text) + 1 for found in errors)
    return errors[0].message


def eq(field: Field, *values: int | str, negated: bool = False) -> Term:
    return Term(field=field, op=Op.EQ, values=values, negated=negated)


def like(field: Field, *values: str, negated: bool = False) -> Term:
    return Term(field=field, op=Op.LIKE, values=values, negated=negated)


def compared(field: Field, op: Op, value: int) -> Term:
    return Term(field=field, op=op, values=(value,))


def has(field: Field, *values: str) -> Term:
    return Term(field=field, op=Op.CONTAINS, values=values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("   ", ()),
        ("9381022", (eq(Field.ID, 9381022),)),
        ("1,2", (eq(Field.ID, 1, 2),)),
        ("-7", (eq(Field.ID, 7, negated=True),)),
        ("id:9223372036854775807", (eq(Field.ID, 2**63 - 1),)),
        (
            "id:5..9",
            (
                Term(field=Field.ID, op=Op.GE, values=(5,)),
                Term(field=Field.ID, op=Op.LE, values=(9,)),
            ),
        ),
        ("mail", (like(Field.KIND, "*mail*"),)),
        ("mail,ship", (like(Field.KIND, "*mail*", "*ship*"),)),
        ('"two words"', (like(Field.KIND, "*two words*"),)),
        ("-mail*", (like(Field.KIND, "mail*", negated=True),)),
        ("kind:mail_send", (eq(Field.KIND, "mail_send"),)),
        ("KIND:mail,other,mail", (eq(Field.KIND, "mail", "other"),)),
        ("kinds:a", (eq(Field.KIND, "a"),)),
        ("kind:*mail*", (like(Field.KIND, "*mail*"),)),
        ("kind:a:b", (eq(Field.KIND, "a:b"),)),
        ('kind:"a*b"', (eq(Field.KIND, "a*b"),)),
        ('kind:*" x,y "*', (like(Field.KIND, "* x,y *"),)),
        ('-queue:"a b","c\\"d\\\\e"', (eq(Field.QUEUE, "a b", 'c"d\\e', negated=True),)),
        ('queue:""', (eq(Field.QUEUE, ""),)),
        ("queue:tenant-*", (like(Field.QUEUE, "tenant-*"),)),
        ("tag:v*", (like(Field.TAG, "v*"),)),
        ("worker:host-a*", (like(Field.WORKER, "host-a*"),)),
        ("priority:1,4", (eq(Field.PRIORITY, 1, 4),)),
        ("tag:vip -tag:test", (eq(Field.TAG, "vip"), eq(Field.TAG, "test", negated=True))),
        (
            "worker:host_2026_11_21T09_00_00_000000",
            (eq(Field.WORKER, "host_2026_11_21T09_00_00_000000"),),
        ),
        ("attempt:>3", (Term(field=Field.ATTEMPT, op=Op.GT, values=(3,)),)),
        ("attempt:<=3", (Term(field=Field.ATTEMPT, op=Op.LE, values=(3,)),)),
        ("attempt:2..", (Term(field=Field.ATTEMPT, op=Op.GE, values=(2,)),)),
        ("error:boom", (like(Field.ERROR, "boom"),)),
        ('error:"connection reset, again"', (like(Field.ERROR, "connection reset, again"),)),
    ],
)
def test_terms(text: str, expected: tuple[Term, ...]) -> None:
    assert terms(text) == expected


@pytest.mark.parametrize(
    ("text", "contained"),
    [
        ("args.customer.id:42", ['{"customer":{"id":42}}']),
        ('args.customer.id:"42"', ['{"customer":{"id":"42"}}']),
        ("args.id:007", ['{"id":"007"}']),
        ("args.id:12345678901234567890123", ['{"id":12345678901234567890123}']),
        ("args.price:1.10", ['{"price":1.10}']),
        ("args.n:1e3", ['{"n":1e3}']),
        ("args.on:true", ['{"on":true}']),
        ("args.on:null", ['{"on":null}']),
        ("args.on:True", ['{"on":"True"}']),
        ("args.name:http://x/?a=1", ['{"name":"http://x/?a=1"}']),
        ("args.a:1,b", ['{"a":1}', '{"a":"b"}']),
        ('args."a.b"."c d":é', ['{"a.b":{"c d":"é"}}']),
        ("args.items[].sku:x", ['{"items":[{"sku":"x"}]}']),
        ("args.ids[]:7", ['{"ids":[7]}']),
        (
            'args:{"a": 1, "b": [true, 12345678901234567890]}',
            ['{"a":1,"b":[true,12345678901234567890]}'],
        ),
        ('args:{"a":1},{"b":2}', ['{"a":1}', '{"b":2}']),
        ('args.a:{"b": 1}', ['{"a":{"b":1}}']),
        ("args.a:[1,2]", ['{"a":[1,2]}']),
        ('args.a:"*"', ['{"a":"*"}']),
        ("args.a:", None),
    ],
)
def test_args(text: str, contained: list[str] | None) -> None:
    if contained is None:
        assert "value is missing" in error(text)
    else:
        assert terms(text) == (has(Field.ARGS, *contained),)
    assert text.startswith("args")
    other = "metadata" + text.removeprefix("args")
    if contained:
        assert terms(other) == (has(Field.METADATA, *contained),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("created:<1h", [(Op.GE, NOW - timedelta(hours=1))]),
        ("created:>1h", [(Op.LT, NOW - timedelta(hours=1))]),
        ("created:>1h30m", [(Op.LT, NOW - timedelta(minutes=90))]),
        ("created:<1.5d", [(Op.GE, NOW - timedelta(hours=36))]),
        ("created:<+1h", [(Op.LT, NOW + timedelta(hours=1))]),
        ("created:>now", [(Op.GT, NOW)]),
        ("created:2h..1h", [(Op.GE, NOW - timedelta(hours=2)), (Op.LE, NOW - timedelta(hours=1))]),
        (
            "created:today",
            [(Op.GE, TODAY), (Op.LT, TODAY + DAY)],
        ),
        (
            "created:yesterday",
            [(Op.GE, TODAY - DAY), (Op.LT, TODAY)],
        ),
        ("created:<2026-11-01", [(Op.LT, datetime(2026, 11, 1, tzinfo=UTC))]),
        ("created:<=2026-11-01", [(Op.LT, datetime(2026, 11, 2, tzinfo=UTC))]),
        ("created:>2026-11-01", [(Op.GE, datetime(2026, 11, 2, tzinfo=UTC))]),
        ("created:>=2026-11-01", [(Op.GE, datetime(2026, 11, 1, tzinfo=UTC))]),
        ("created:>=2026-11-01T10:00Z", [(Op.GE, datetime(2026, 11, 1, 10, tzinfo=UTC))]),
        ("created:>=2026-11-01T10:00+02:00", [(Op.GE, datetime(2026, 11, 1, 8, tzinfo=UTC))]),
        ("created:<2026-11-01T10", [(Op.LT, datetime(2026, 11, 1, 10, tzinfo=UTC))]),
        (
            "created:2026-11-21T00:00:05",
            [(Op.GE, TODAY + timedelta(seconds=5)), (Op.LT, TODAY + timedelta(seconds=6))],
        ),
        (
            "created:2026-11-01T10:00:05.25",
            [(Op.EQ, datetime(2026, 11, 1, 10, 0, 5, 250_000, tzinfo=UTC))],
        ),
        (
            "created:2026-11-01..2026-11-02",
            [
                (Op.GE, datetime(2026, 11, 1, tzinfo=UTC)),
                (Op.LT, datetime(2026, 11, 3, tzinfo=UTC)),
            ],
        ),
    ],
)
def test_times(text: str, expected: list[tuple[Op, datetime]]) -> None:
    assert [(term.op, *term.values) for term in terms(text)] == expected
    assert all(term.field is Field.CREATED for term in terms(text))


def test_states_are_lifted_out_of_the_terms() -> None:
    search = query.parse("state:running,retryable kind:a", now=NOW)
    assert search.filter() == JobFilter(
        states=(JobState.RUNNING, JobState.RETRYABLE), terms=(eq(Field.KIND, "a"),)
    )
    assert search.filter((JobState.COMPLETED,)).states == (JobState.RUNNING, JobState.RETRYABLE)
    assert search.without_states() == "kind:a"
    assert search.stateless() == query.parse("kind:a", now=NOW)
    assert query.parse("kind:a", now=NOW).filter((JobState.COMPLETED,)).states == (
        JobState.COMPLETED,
    )
    unfinished = query.parse("-state:completed,cancelled,discarded", now=NOW)
    assert set(unfinished.filter().states) == {
        JobState.PENDING,
        JobState.SCHEDULED,
        JobState.AVAILABLE,
        JobState.RUNNING,
        JobState.RETRYABLE,
    }


@pytest.mark.parametrize(
    "text",
    [
        "state:running",
        '  kind:a   state:running,retryable  -tag:"b c" ',
        "state:running mail args.a:1 -state:pending created:<1h finished:2026-11-01..2026-11-03",
    ],
)
def test_a_search_without_its_states_is_as_if_it_were_read_anew(text: str) -> None:
    search = query.parse(text, now=NOW)
    assert search.stateless() == query.parse(search.without_states(), now=NOW)


def test_an_impossible_choice_of_states_is_never_every_state() -> None:
    search = query.parse("state:running state:completed", now=NOW)
    assert "all of these states" in search.errors[0].message
    with pytest.raises(BadRequest):
        search.filter()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("knd:mail", "did you mean kind:?"),
        ("job:mail", "Terms begin with id:"),
        ("created_at:<1h", "did you mean created:?"),
        ("http://x", "“http:” is not a search term"),
        ("kind:", "value is missing after kind:"),
        ("kind: mail", "without a space"),
        ("kind:a, b", "missing after a comma"),
        ('kind:"mail', "closing quote is missing"),
        ('args:{"a":1}x', "space is missing"),
        ("id:x", "must be a whole number"),
        ("id:99999999999999999999", "must be a whole number"),
        ("id:9223372036854775808", "must be from -9223372036854775808 to"),
        ("priority:5", "must be from 1 to 4"),
        ("attempt:>1,2", "takes one value"),
        ("attempt:..", "beginning or an end"),
        ("-attempt:2..5", "cannot exclude a range"),
        ("-created:2026-11-01", "cannot exclude a range"),
        ('kind:"*"a*', "quoted *"),
        ("kind=charge", "“kind=charge” is not a search term: did you mean kind:charge?"),
        ("-queues=mail,slow", "did you mean -queue:mail,slow?"),
        ("state!=running", "did you mean -state:running?"),
        ("attempt>=3", "did you mean attempt:>=3?"),
        ("created<1h", "did you mean created:<1h?"),
        ("knd=mail", "“knd=” is not a search term: did you mean kind:?"),
        ("args.customer.id=42", "did you mean args.customer.id:42?"),
        ("metadata.ids[]=x1 mail", "did you mean metadata.ids[]:x1?"),
        ("args.a=", "did you mean args.a:42?"),
        ("state:failed", "did you mean retryable,discarded?"),
        ("state:runing", "did you mean running?"),
        ("state:zzz", "is not a state: use pending, scheduled"),
        ("created:1h", "within or before that time span: <1h or >1h"),
        ("created:<soon", "is not a time"),
        ("created:<2026-13-01", "This time does not exist"),
        ("created:<2026-01-01T24:00", "This time does not exist"),
        ("created:>9999999999w", "too long"),
        ("created:>999999d", "time span is out of range"),
        ("args.a", "args.a needs a value"),
        ("args.:1", "part of the path is empty"),
        ("args[]:1", "args is an object"),
        ("args.a[0]:1", "Only [] works here"),
        ("args:42", "args is an object"),
        ("args:customer.id:42", "write args.customer.id:42"),
        ('args:{"a"', "not valid JSON"),
        ('args:{"a":NaN}', "NaN is not a JSON value"),
        ('args:{"a":"\\u0000"}', "cannot store NUL"),
        ('args:{"a":"\\ud800"}', "surrogate"),
        ("args.a:1e99999", "out of range"),
        ("args.a:x*", "matches whole values only"),
        ("args:" + '{"a":' * 40 + "1" + "}" * 40, "levels deep"),
        ("args:" + "[" * 900 + "]" * 900, "levels deep"),
        ("args." + "a." * 40 + "b:1", "levels deep"),
        ("kind:a\0", "U+0000 cannot be searched"),
        ("kind:\ud800", "U+D800 cannot be searched"),
        ("kind:" + "a" * 2000, "at most 2,000 characters"),
        ("a " * 51, "at most 50 terms"),
        ("id:" + ",".join("1" * 101), "at most 100 values"),
        ("*", "cannot be searched for in kinds"),
        ('error:""', "needs some text"),
    ],
)
def test_nonsense_is_answered_with_words(text: str, words: str) -> None:
    assert words in error(text)
    assert query.parse(text, now=NOW).text == text[: query.MAX_LENGTH + 1]


def test_the_rest_is_still_understood_beside_nonsense() -> None:
    search = query.parse('knd:"a b" queue:x', now=NOW)
    assert [(part.start, part.end, bool(part.error)) for part in search.parts] == [
        (0, 9, True),
        (10, 17, False),
    ]
    assert search.fields()["queue"] == "x"
    assert search.errors[0].start == 0


def test_fields_show_the_same_filter() -> None:
    args = 'args.a.b:1 args:{"c": 2} -args.d:3'
    text = f'mail -kind:other {args} error:"a, b" created:<1h attempt:>3 42 tag:x,y -tag:z'
    fields = query.parse(text, now=NOW).fields()
    assert fields["kind"] == "*mail* -other"
    assert fields["args"] == 'a.b:1 {"c": 2} -d:3'
    assert fields["error"] == "a, b"
    assert fields["created"] == "<1h"
    assert fields["id"] == "42"
    assert fields["tag"] == "x,y -z"
    assert fields["queue"] == ""
    assert "state" not in fields


@pytest.mark.parametrize(
    ("field", "typed", "expected"),
    [
        ("kind", "mail, bounce", "kind:mail,bounce"),
        ("kind", "*mail* -x", "kind:*mail* -kind:x"),
        ("error", "connection reset, again", 'error:"connection reset, again"'),
        ("error", '"a","b"', 'error:"a","b"'),
        ("created", "> 1h", "created:>1h"),
        ("created", ">= 2026-11-01 10:00", "created:>=2026-11-01T10:00"),
        ("args", "customer.id:42 -x:1", "args.customer.id:42 -args.x:1"),
        (
            "args",
            '{"a": 1, "b": "x y"},{"c": 2} d:1',
            'args:{"a": 1, "b": "x y"},{"c": 2} args.d:1',
        ),
        ("args", '{"a": 1', 'args:{"a": 1'),
        ("id", "", ""),
        ("id", " 7 ", "id:7"),
    ],
)
def test_form_fields_become_terms(field: str, typed: str, expected: str) -> None:
    assert query.merge_fields(query.parse("", now=NOW), {field: typed}) == expected


def test_a_value_that_begins_with_a_minus_is_no_negation_in_its_field() -> None:
    for text in (
        "kind:-a,b",
        "-queue:-*",
        "args.-a.b:1",
        "created:>-1h",
        "scheduled:-1h",
        "error:-x",
    ):
        search = query.parse(text, now=NOW)
        assert not search.errors
        again = query.parse(query.merge_fields(query.parse("", now=NOW), search.fields()), now=NOW)
        assert again.terms == search.terms, text


def test_form_fields_replace_what_the_text_said_about_them() -> None:
    search = query.parse("mail queue:a tag:x knd:q", now=NOW)
    assert query.merge_fields(search, {"kind": "new", "queue": ""}) == "tag:x knd:q kind:new"


def test_text_that_cannot_be_read_is_kept_beside_the_fields() -> None:
    search = query.parse("a " * 60, now=NOW)
    assert query.merge_fields(search, {"kind": ""}) == ("a " * 60).strip()


names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12)
instants = st.integers(0, 10**17).map(
    lambda micros: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
)
midnights = instants.map(lambda at: at.replace(hour=0, minute=0, second=0, microsecond=0))
scalars = st.one_of(
    names,
    st.just(""),
    st.booleans(),
    st.none(),
    st.integers().map(lambda number: json_terms.Number(number)),
    st.sampled_from(["1.10", "1e3", "-0", "0.0"]).map(json_terms.Number),
)
objects = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)


def unique(values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(values, min_size=1, max_size=4, unique=True).map(tuple)


patterns = names.map(lambda name: f"*{name.replace('*', '')}x*")
filter_terms = st.one_of(
    st.builds(
        Term,
        field=st.sampled_from([Field.KIND, Field.QUEUE, Field.TAG, Field.WORKER]),
        op=st.just(Op.EQ),
        values=unique(names),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.sampled_from([Field.KIND, Field.QUEUE, Field.TAG, Field.WORKER]),
        op=st.just(Op.LIKE),
        values=unique(patterns),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.just(Field.ERROR),
        op=st.just(Op.LIKE),
        values=unique(names.filter(lambda text: bool(text.strip("* ")))),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.sampled_from([Field.ID, Field.ATTEMPT]),
        op=st.just(Op.EQ),
        values=unique(st.integers(0, 32_767)),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.sampled_from([Field.ID, Field.ATTEMPT]),
        op=st.sampled_from([Op.LT, Op.LE, Op.GT, Op.GE]),
        values=st.tuples(st.integers(0, 32_767)),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.sampled_from([Field.CREATED, Field.SCHEDULED, Field.STARTED, Field.FINISHED]),
        op=st.sampled_from([Op.EQ, Op.LT, Op.LE, Op.GT, Op.GE]),
        values=st.tuples(instants | midnights),
        negated=st.booleans(),
    ),
    st.builds(
        Term,
        field=st.sampled_from([Field.ARGS, Field.METADATA]),
        op=st.just(Op.CONTAINS),
        values=unique(st.dictionaries(names, objects, max_size=3).map(json_terms.dump)),
        negated=st.booleans(),
    ),
)
filters = st.builds(
    JobFilter,
    states=st.sets(st.sampled_from(JobState)).map(
        lambda states: query.normal_states(tuple(states))
    ),
    terms=st.lists(filter_terms, max_size=4).map(tuple),
)


@settings(max_examples=scaled(100, 300), deadline=None)
@given(filters)
def test_a_filter_survives_its_text(filter: JobFilter) -> None:
    search = query.parse(query.format(filter), now=NOW, max_length=100_000)
    assert not search.errors
    assert search.filter() == filter


@settings(max_examples=scaled(100, 300), deadline=None)
@given(filters)
def test_a_filter_survives_the_plain_form(filter: JobFilter) -> None:
    search = query.parse(query.format(filter), now=NOW, max_length=100_000)
    text = query.merge_fields(query.parse("", now=NOW), search.fields())
    again = query.parse(text, now=NOW, max_length=100_000)
    assert not again.errors
    assert sorted(map(repr, again.terms)) == sorted(map(repr, filter.terms))


@settings(max_examples=scaled(150, 500), deadline=None)
@given(st.text(max_size=200) | st.text(st.sampled_from('-:.,"\\*[]{}<>= akid1args'), max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    search = query.parse(text, now=NOW)
    if search.errors:
        with pytest.raises(BadRequest):
            search.filter()
    else:
        found = search.filter()
        assert query.parse(query.format(found), now=NOW, max_length=100_000).filter() == found
    search.fields()


def test_json_values_are_real_json() -> None:
    for value in terms('args.a."b c"[].d:"\\"x\\\\"')[0].values:
        assert json.loads(str(value)) == {"a": {"b c": [{"d": '"x\\'}]}}


@pytest.mark.parametrize("before", [False, True])
def test_cursors_survive(before: bool) -> None:
    by_time = JobCursor(at=NOW, id=42, before=before)
    assert query.encode_cursor(by_time) == "2026-11-21T12:30:15.250000Z~42"
    assert (
        query.decode_cursor(query.encode_cursor(by_time), JobOrder.TIME, before=before) == by_time
    )
    by_id = JobCursor(at=None, id=42, before=before)
    assert query.decode_cursor(query.encode_cursor(by_id), JobOrder.ID_DESC, before=before) == by_id


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("", JobOrder.ID),
        ("x", JobOrder.ID),
        ("--1", JobOrder.ID),
        ("-9223372036854775809", JobOrder.ID),
        ("9223372036854775808", JobOrder.ID),
        ("42", JobOrder.TIME),
        ("now~1", JobOrder.TIME),
        ("2026-11-21~1", JobOrder.TIME),
        ("2026-11-21T12:30:15.250000Z~1", JobOrder.ID),
        ("2026-99-21T12:30:15.250000Z~1", JobOrder.TIME),
        ("42\0", JobOrder.ID),
        ("4" * 5000, JobOrder.ID),
        ("٤٢", JobOrder.ID),
    ],
)
def test_bad_cursors(text: str, order: JobOrder) -> None:
    with pytest.raises(BadRequest, match="Invalid cursor"):
        query.decode_cursor(text, order)


def test_links_quote_what_they_must() -> None:
    assert query.term(Field.KIND, "mail") == "kind:mail"
    for name in ("a b", 'a"b', "a,b", "*", "\\", ""):
        assert terms(query.term(Field.QUEUE, name)) == (eq(Field.QUEUE, name),)
