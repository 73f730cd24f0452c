"""Statements that only Postgres supports: reads for pages, indexes, partitions' candidates."""
