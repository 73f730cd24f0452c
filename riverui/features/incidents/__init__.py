"""Problems with a beginning and an end: incidents."""
