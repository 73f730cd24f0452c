"""Authentication and rights."""
