"""The JSON API for commands: of a running dashboard, or of one in this process."""
