"""Heartbeats of clients, and the rescue of the jobs of clients that stopped sending them."""
