"""Figures: jobs counted and timed, for charts, the health report and the metrics."""
