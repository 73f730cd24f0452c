"""Groups of errors and their fingerprints."""
