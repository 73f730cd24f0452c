"""What people and programs do to jobs, queues and workflows: one transaction each."""
