"""A section made of three files, to be added to a copy of the package by test_section.py.

`section.py` becomes `riverui/web/sections/notes/__init__.py`, `index.html` becomes
`templates/notes/index.html`, and `riverui/web/sections/__init__.py` gets its line.
"""
