"""The JSON API as commands ask it: of a dashboard elsewhere, or of one made here for a database."""
