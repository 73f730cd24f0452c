"""Counts a client's attempts, and stores the counts."""
