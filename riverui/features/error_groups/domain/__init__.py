"""Groups of errors, and the fingerprints that make them."""
