"""Signs of life of clients, and the rescue of the jobs of those that give none."""
