"""The worker engine's operations on River's tables."""
