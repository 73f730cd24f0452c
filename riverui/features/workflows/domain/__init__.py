"""Tasks, their dependencies, and the drawing of both."""
