"""Reads for the dashboard and the API."""
