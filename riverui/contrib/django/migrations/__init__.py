"""River's tables as Django migrations.

A release that brings new versions of a line comes with a further Django migration.
"""
