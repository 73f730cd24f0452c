"""Checks of the database, and the facts that they need."""
