"""Jobs of a key that run one after the other."""
