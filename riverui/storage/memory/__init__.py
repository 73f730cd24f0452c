"""River's tables in the memory of one process, for tests: the state machine of River in Python."""
