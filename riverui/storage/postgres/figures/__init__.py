"""Figures out of the rows of jobs."""
