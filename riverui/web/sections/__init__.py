"""The sections of the dashboard, one folder each; none imports another."""
