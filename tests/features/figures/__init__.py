"""Figures as read, stored and shown."""
