"""From values and rows to markup."""
