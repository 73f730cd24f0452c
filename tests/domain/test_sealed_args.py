"""How encrypted args look without their keys."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from riverui.domain.sealed_args import OpenedArgs, is_sealed, sealed_args

PLAIN = '{"card":"4242"}'


def test_opened_args_are_not_shown() -> None:
    opened = OpenedArgs(PLAIN)
    assert repr(opened) == "'(opened args)'"
    assert json.loads(opened) == {"card": "4242"}


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        PLAIN,
        '{"river_encrypt": 7}',
        '{"river_encrypted": "x"}',
        '{"note": "river_encrypt"}',
        '["river_encrypt"]',
        '{"a": 1, "river_encrypt": "AAAA"}',
        "",
    ],
)
def test_other_args_are_not_sealed(text: str) -> None:
    assert not is_sealed(text)
    assert sealed_args(text) is None


def test_how_many_bytes_are_sealed_in_whole_and_cut_args() -> None:
    size = 347
    sealed = f'{{"river_encrypt":"{b64encode(bytes(size)).decode()}"}}'
    printed = json.dumps(json.loads(sealed))
    for text in (sealed, printed):
        assert is_sealed(text)
        assert sealed_args(text) == (size,)
    cut = sealed_args(printed[:100], len(printed))
    assert cut is not None
    assert cut.bytes is not None
    assert abs(cut.bytes - size) <= 2
    assert sealed_args(printed[:100]) == (None,)
