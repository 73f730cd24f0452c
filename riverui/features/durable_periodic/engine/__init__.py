"""How the leader plans durable periodic jobs."""
