"""What people do to jobs, and migrations."""
