"""Operations: actions on all jobs that match a search."""
