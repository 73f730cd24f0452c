"""Checks of the database below the queue, each with a statement that fixes what it finds."""
