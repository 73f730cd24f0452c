"""River's tables: the interface to them, and the drivers behind it."""
