"""What the worker engine does to River's tables."""
