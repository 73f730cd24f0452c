"""`riverui job`: one file a command."""
