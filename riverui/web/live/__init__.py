"""Live data: counts, notices, figures."""
