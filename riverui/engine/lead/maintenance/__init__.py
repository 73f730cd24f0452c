"""The services of the leader, one a file."""
