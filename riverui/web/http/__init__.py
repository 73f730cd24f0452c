"""Requests and responses: the gate, routes, forms, static files, errors."""
