"""Commands of `manage.py`: `riverui` and `riverui_worker`."""
