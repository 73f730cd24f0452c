"""OpenTelemetry's context on its way into a child process; nothing where it is not in use."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


def current() -> Mapping[str, str] | None:
    """Return the trace context of here, as it travels; None where there is none."""
    if "opentelemetry.propagate" not in sys.modules and "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier or None


@contextmanager
def attached(carrier: Mapping[str, str] | None) -> Iterator[None]:
    """Surround what belongs to the trace that a carrier names."""
    if carrier is None:
        yield
        return
    from opentelemetry import context, propagate

    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)
