"""The contract of every driver, tested through riverui.storage.interface only.

The drivers come from conftest.py, the only file that knows a database. Rows are put in and
looked at through the interface itself.
"""
