"""Limits on how many jobs run at once, in all clients together and in each."""
