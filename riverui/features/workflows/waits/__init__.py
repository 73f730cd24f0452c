"""Workflow tasks that wait for signals, timers and conditions."""
