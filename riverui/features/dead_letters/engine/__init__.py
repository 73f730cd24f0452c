"""How a client keeps, lists, retries and deletes dead letters."""
