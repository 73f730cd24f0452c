"""The leader's services on a clock of the tests' own."""

from tests.engine.maintenance.conftest import clock

__all__ = ["clock"]
