"""Signals, and the waits of tasks."""
