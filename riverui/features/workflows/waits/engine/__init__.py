"""Waits of workflows: tasks that wait for signals, timers and conditions."""
