"""Connect riverui to other libraries; each module is imported only by programs that use it."""
