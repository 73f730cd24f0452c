"""Statements that only Postgres has: reads for pages, indexes, candidates for partitions."""
