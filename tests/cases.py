"""One test over many cases that need the same set-up: each failure is reported, by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from traceback import extract_tb

import pytest

Case = Callable[[object], AbstractContextManager[None]]


@contextmanager
def cases() -> Iterator[Case]:
    """Yield what runs a case by its name; fail at the end if any of them did.

    A case that fails keeps none of the others from running:

        with cases() as case:
            for text in TEXTS:
                with case(text):
                    assert parse(text)
    """
    failed: list[str] = []

    @contextmanager
    def case(name: object) -> Iterator[None]:
        try:
            yield
        except (Exception, pytest.fail.Exception) as error:
            # The first frame is the one above, the second that of the test.
            line = extract_tb(error.__traceback__)[1].lineno
            failed.append(f"{name} (line {line}): {type(error).__name__}: {error}")

    yield case
    if failed:
        pytest.fail("\n\n".join((f"cases that failed: {len(failed)}", *failed)), pytrace=False)
