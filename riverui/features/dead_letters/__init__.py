"""Discarded and deleted jobs that are kept, and can be put back."""
