"""Lists of jobs: the plan of the walk, its filters and its rows."""
