"""The outbox pattern twice: a relay on a table of its own, and the same on River's jobs."""
