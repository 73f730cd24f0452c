"""What a client does with dead letters."""
