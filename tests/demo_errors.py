"""Errors as Go's and Python's workers leave them, for tests that group them."""

from __future__ import annotations

GO_REFUSED = "dial tcp 10.0.8.14:587: connect: connection refused"

PYTHON_TRACE = """\
Traceback (most recent call last):
  File "/app/.venv/lib/python3.13/site-packages/riverui/engine/work/job_executor.py", line 1, in _w
    await worker.work(job)
  File "/app/shop/orders.py", line 61, in work
    take(order)
  File "/app/shop/stock.py", line 29, in take
    raise NoStock(left)
shop.errors.NoStock: 7 left
"""
