"""Encrypts the args of jobs in the database."""
