"""Inserting jobs: from args and options to rows, through hooks and middleware."""
