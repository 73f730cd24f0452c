"""What the leader does: election, periodic jobs and maintenance."""
