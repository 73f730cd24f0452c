"""About: versions, the database, preferences, help."""
