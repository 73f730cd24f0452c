"""Lists of jobs: how they are read, their filters and their rows."""
