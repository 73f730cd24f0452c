"""Limits on how many jobs of a queue run at once, in all clients together."""
