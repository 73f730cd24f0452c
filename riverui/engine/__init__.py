"""The worker engine: inserts jobs, works them, and looks after the queue."""
