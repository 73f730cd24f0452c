"""Objectives of queues: the share of jobs that has to start in time."""
