"""The same small service in six web frameworks; README.md tells how to start each."""
