"""Sequences: jobs of a key run one at a time, in the order of their insertion."""
