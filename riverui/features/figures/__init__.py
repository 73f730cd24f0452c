"""Figures: what was done over time, shown by charts, the health report and the metrics."""
