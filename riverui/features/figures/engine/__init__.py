"""What a client counts of its attempts, and how it stores that."""
