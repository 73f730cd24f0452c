"""Operations: actions on all matching jobs, which run in the background in small steps."""
