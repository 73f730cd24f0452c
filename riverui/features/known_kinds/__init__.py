"""Fetch only jobs whose kind the client has a worker for."""
