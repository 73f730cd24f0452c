"""`riverui worker --processes`: a supervisor, and the processes that share a client's slots."""
