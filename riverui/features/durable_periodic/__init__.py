"""Periodic jobs whose next run survives a restart."""
