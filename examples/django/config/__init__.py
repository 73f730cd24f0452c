"""A shop whose receipts are sent by River jobs."""
