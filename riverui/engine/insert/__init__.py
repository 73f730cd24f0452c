"""Insert jobs: args and options become rows, through hooks and middleware."""
