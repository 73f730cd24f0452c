"""Why a job is not running: what was read around it becomes ordered checks with evidence."""
