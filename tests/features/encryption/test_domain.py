"""Args that are encrypted in the database."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode

import pytest
from hypothesis import given, strategies

from riverui.errors import ConfigError, DecryptionError
from riverui.features.encryption.domain import ArgsKeys, keys_of

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
PLAIN = '{"card":"4242"}'


def value(sealed: str) -> str:
    """Return what stands under the key."""
    found = json.loads(sealed)
    assert list(found) == ["river_encrypt"]
    text: str = found["river_encrypt"]
    return text


@given(strategies.text())
def test_what_was_sealed_is_opened_to_the_letter(text: str) -> None:
    keys = ArgsKeys([OLD])
    plain = json.dumps({"text": text}, ensure_ascii=False) if text.isascii() else PLAIN
    assert keys.open(keys.seal(plain)) == plain


def test_the_same_args_are_never_sealed_alike() -> None:
    keys = ArgsKeys([OLD])
    assert keys.seal(PLAIN) != keys.seal(PLAIN)


def test_the_documented_layout() -> None:
    sealed = ArgsKeys([OLD]).seal(PLAIN)
    raw = b64decode(value(sealed))
    assert raw[0] == 1
    assert len(raw) == 1 + 5 + 24 + 16 + len(PLAIN)
    assert value(sealed)[:8] == ArgsKeys([OLD]).ids[0]


def test_the_first_key_seals_and_all_open() -> None:
    old, both = ArgsKeys([OLD]), ArgsKeys([NEW, OLD])
    assert both.open(old.seal(PLAIN)) == PLAIN
    assert both.open(both.seal(PLAIN)) == PLAIN
    with pytest.raises(DecryptionError) as raised:
        old.open(both.seal(PLAIN))
    message = str(raised.value)
    assert ArgsKeys([NEW]).ids[0] in message
    assert old.ids[0] in message
    assert "4242" not in message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]), "damaged"),
        (lambda raw: raw[:10], "damaged"),
        (lambda raw: b"\x02" + raw[1:], "a format that riverui does not know"),
        (lambda raw: b"", "a format that riverui does not know"),
    ],
)
def test_damaged_args_raise(change: object, words: str) -> None:
    keys = ArgsKeys([OLD])
    raw = b64decode(value(keys.seal(PLAIN)))
    text = b64encode(change(raw)).decode()  # type: ignore[operator]
    with pytest.raises(DecryptionError, match=words):
        keys.open(json.dumps({"river_encrypt": text}))


def test_text_that_is_no_base64_is_not_known() -> None:
    with pytest.raises(DecryptionError, match="does not know"):
        ArgsKeys([OLD]).open('{"river_encrypt": "%%%"}')


def test_keys_are_not_shown() -> None:
    key = b"k" * 32
    for shown in (repr(ArgsKeys([key])), str(ArgsKeys([key]))):
        assert "kkk" not in shown
        assert b64encode(key).decode()[:8] not in shown
    for bad in (b"k" * 31, "k" * 32):
        with pytest.raises(ConfigError) as raised:
            ArgsKeys([bad])  # type: ignore[list-item]
        assert "kkk" not in str(raised.value)
    with pytest.raises(ConfigError, match="a list of keys"):
        ArgsKeys(key)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="a list of keys"):
        ArgsKeys([])


def test_a_file_of_keys_has_one_a_line() -> None:
    text = f"# since May\n{b64encode(NEW).decode()}\n\n  {b64encode(OLD).decode()}\n"
    assert keys_of(text).ids == ArgsKeys([NEW, OLD]).ids
    with pytest.raises(ConfigError, match="line 2 is no encryption key") as raised:
        keys_of("\nsecretsecret")
    assert "secretsecret" not in str(raised.value)
    with pytest.raises(ConfigError, match="there is no encryption key"):
        keys_of("# nothing\n")
