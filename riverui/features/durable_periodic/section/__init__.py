"""Durable periodic jobs on the page and in the API."""
