"""Job args: their kinds, their JSON both ways, and unique keys."""
