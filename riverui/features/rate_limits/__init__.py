"""Limits how fast jobs of a queue start, in all clients together."""
