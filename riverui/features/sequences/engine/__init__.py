"""How jobs of a sequence are inserted and moved on."""
