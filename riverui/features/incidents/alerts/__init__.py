"""Alerts: changes of incidents that are sent to other systems, and silences."""
