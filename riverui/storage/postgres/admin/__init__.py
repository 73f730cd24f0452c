"""Actions on jobs, and migrations."""
