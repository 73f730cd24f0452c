"""Inserts jobs of sequences, and moves sequences on."""
