"""Shares the slots of a queue fairly among keys."""
