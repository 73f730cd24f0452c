"""The worker engine: inserts jobs, works them, and maintains the queue."""
