"""River's tables as Django migrations. A release with new versions of a line adds a migration."""
