"""Queues: the list, one queue, pause and resume."""
