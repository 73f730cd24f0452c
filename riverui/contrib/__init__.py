"""Parts for other libraries, each imported only by who wants it."""
