"""Postgres as deployed: versions, standbys, poolers, ways to sign in."""
