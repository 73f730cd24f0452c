"""Secrets are left out, and all else stays to the letter."""

from __future__ import annotations

import pytest

from riverui.web.config import REDACT_KEYS
from riverui.web.view.redaction import Redaction

redaction = Redaction(REDACT_KEYS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": 1.10, "b": "x"}', '{"a": 1.10, "b": "x"}'),
        ('{"password": "x", "n": 1.10}', '{"password": "[redacted]", "n": 1.10}'),
        (
            '{"db_password": 7, "big": 12345678901234567890}',
            '{"db_password": "[redacted]", "big": 12345678901234567890}',
        ),
        ('{"API-Key": {"deep": [1]}}', '{"API-Key": "[redacted]"}'),
        ('{"list": [{"accessToken": null}, 2]}', '{"list": [{"accessToken": "[redacted]"}, 2]}'),
        ('{"tokens_used": 5}', '{"tokens_used": 5}'),
        ('"password"', '"password"'),
        ('["password", ":", "password"]', '["password", ":", "password"]'),
        (
            '{"a": "\\"", "password": "\\"x", "b": 1}',
            '{"a": "\\"", "password": "[redacted]", "b": 1}',
        ),
        (
            '{"pass\\nword": 1, "v": ":", "token": {"secret": "}"}}',
            '{"pass\\nword": "[redacted]", "v": ":", "token": "[redacted]"}',
        ),
        ('{"v": "x", ":secret": 1}', '{"v": "x", ":secret": "[redacted]"}'),
        ("[]", "[]"),
    ],
)
def test_values_are_replaced_by_the_names_of_their_keys(text: str, shown: str) -> None:
    assert redaction.text(text) == shown


def test_depth_and_digits_hide_no_secret() -> None:
    deep = '{"a":' * 100_000 + '{"password":"x"}' + "}" * 100_000
    assert redaction.text(deep) == deep.replace('"x"', '"[redacted]"')
    assert redaction.text(deep.replace("password", "b")) == deep.replace("password", "b")
    digits = "1" * 10_000
    assert (
        redaction.text(f'{{"a":{digits},"token":{digits}}}')
        == f'{{"a":{digits},"token":"[redacted]"}}'
    )


def test_a_secret_whose_end_cannot_be_told_takes_all_with_it() -> None:
    assert redaction.text('{"token":' + "[" * 100_000 + "]" * 100_000 + "}") == '"[redacted]"'


def test_other_names_and_none() -> None:
    assert Redaction(("iban",)).text('{"IBAN": "x"}') == '{"IBAN": "[redacted]"}'
    assert Redaction(()).text('{"password": "x"}') == '{"password": "x"}'
