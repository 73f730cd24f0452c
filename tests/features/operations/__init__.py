"""Tests of operations: actions on all matching jobs."""
