"""`riverui top`: the overview in a terminal. `frame` draws, `board` decides what keys do, `tty` is
the terminal.
"""
