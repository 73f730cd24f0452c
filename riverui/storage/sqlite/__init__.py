"""River's tables in a SQLite file, or in a temporary one."""
