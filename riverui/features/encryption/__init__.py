"""Args that are encrypted in the database."""
