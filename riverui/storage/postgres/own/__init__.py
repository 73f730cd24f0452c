"""Operations on the tables of riverui's own."""
