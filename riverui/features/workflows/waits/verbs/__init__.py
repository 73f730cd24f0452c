"""Signals, and what a task waits for."""
