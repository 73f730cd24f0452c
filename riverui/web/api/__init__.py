"""Parts of the JSON API that the sections share."""
