"""`riverui serve`: the dashboard as a process of its own."""
