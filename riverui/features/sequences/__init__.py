"""Jobs of the same key that run one after the other."""
