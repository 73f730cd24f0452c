"""Actions on workflows, and on their jobs."""
