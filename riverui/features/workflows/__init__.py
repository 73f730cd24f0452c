"""Jobs that depend on one another."""
