"""Failed jobs grouped by their errors."""
