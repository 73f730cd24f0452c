"""Kinds of job args, their JSON both ways, and unique keys."""
