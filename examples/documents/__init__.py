"""Example: thousands of files, each split into pages that are read, embedded and indexed, with
riverui's workflows, limits and batches.
"""
