"""What jobs of each kind cost: time of workers, processors and the database, rows and WAL."""
