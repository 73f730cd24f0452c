"""An orchestrator with its job queue, workers and dashboard inside one process. Start it: see
README.md.
"""
