"""Limits on how fast jobs of a queue begin, in all clients together."""
