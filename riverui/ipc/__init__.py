"""Child processes: how they start and end, and the messages to and from their parent."""
