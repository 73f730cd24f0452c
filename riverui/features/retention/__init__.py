"""How long a queue keeps its finished jobs."""
