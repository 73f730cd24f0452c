"""Keys of a queue that share its slots."""
