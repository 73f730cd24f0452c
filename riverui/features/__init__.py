"""What riverui adds to a plain queue: one folder per feature."""
