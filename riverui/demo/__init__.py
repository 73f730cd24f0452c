"""The demo: a Postgres of its own and a made-up shop, whose jobs are worked by real workers."""
