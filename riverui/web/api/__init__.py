"""What the sections share of the JSON API."""
