"""Child processes and their messages."""
