"""The `riverui` command: one file a subcommand, and the only readers of argv and environment."""
