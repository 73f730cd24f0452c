"""Child processes: how they are started, what they and their parents send each other, their end."""
