"""What the dashboard and the API read."""
