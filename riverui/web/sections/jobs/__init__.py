"""Jobs: the list, one job, search, export."""
