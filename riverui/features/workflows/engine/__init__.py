"""Workflows: jobs that wait for one another."""
