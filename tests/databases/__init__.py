"""Postgres as people have it: versions, standbys, poolers, ways to sign in."""
