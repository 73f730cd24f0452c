"""Reads, keeps and stores the figures of a dashboard."""
