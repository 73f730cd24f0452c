"""Scores the health report: plays incidents and healthy oddities on random backgrounds."""
