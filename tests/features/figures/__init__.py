"""Figures: what is read, stored and shown."""
