"""A database for tests in the memory of one process."""

from riverui.storage.memory.driver import MemoryDatabase

__all__ = ["MemoryDatabase"]
