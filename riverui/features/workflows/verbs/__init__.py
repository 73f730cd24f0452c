"""What is done to workflows, and to their jobs."""
