"""What riverui adds to a plain queue: a folder a feature."""
