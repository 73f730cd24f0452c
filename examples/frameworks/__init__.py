"""The same small service in six web frameworks; see README.md."""
