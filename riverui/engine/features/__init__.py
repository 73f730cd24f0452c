"""What can be added to a client, one module or folder each; see `riverui.engine.pilot`."""
