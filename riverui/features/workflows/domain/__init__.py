"""Tasks, what they depend on, and how they are drawn."""
