"""River's tables as Django migrations. A release with new versions of a line, also of
SQLite's only, adds a migration.
"""
