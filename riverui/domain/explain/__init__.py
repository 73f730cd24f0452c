"""Explains why a job is not running: facts become ordered checks with evidence."""
