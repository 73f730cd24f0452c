"""The Postgres driver, with its SQL beside its code."""
