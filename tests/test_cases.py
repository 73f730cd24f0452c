"""A test over many cases reports each that fails."""

from __future__ import annotations

import pytest

from tests.cases import cases


def run(ran: list[int]) -> None:
    """Run five cases, three of which fail."""
    with cases() as case:
        for number in range(5):
            with case(f"number {number}"):
                ran.append(number)
                assert number != 1
                assert number != 2, "two"
                if number == 3:
                    raise KeyError("three")


def test_each_case_that_fails_is_reported_and_the_others_run() -> None:
    ran: list[int] = []
    with pytest.raises(pytest.fail.Exception) as failure:
        run(ran)
    assert ran == [0, 1, 2, 3, 4]
    assert str(failure.value).split("\n\n") == [
        "cases that failed: 3",
        "number 1 (line 16): AssertionError: assert 1 != 1",
        "number 2 (line 17): AssertionError: two\nassert 2 != 2",
        "number 3 (line 19): KeyError: 'three'",
    ]


def test_what_fails_outside_of_a_case_is_raised_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError), cases():
        raise ZeroDivisionError


def test_an_exception_that_does_not_come_fails_its_case() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"),
        cases() as case,
        case("quiet"),
        pytest.raises(ValueError, match="loud"),
    ):
        pass
