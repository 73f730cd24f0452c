"""Which clients are alive, and the jobs of those that are not."""
