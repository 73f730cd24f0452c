"""What every driver must do, said in the words of riverui.storage.interface alone.

The drivers come from conftest.py, the only file here that knows a database. Rows are put in and
looked at through the interface itself.
"""
