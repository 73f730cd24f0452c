"""Lists of jobs: their plans, filters and rows."""
