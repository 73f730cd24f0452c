"""`riverui worker`: works the jobs of a client that a program defines, as a process of its own."""
