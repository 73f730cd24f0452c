"""River in a Django project: `"riverui.contrib.django"` in INSTALLED_APPS brings its tables, its
commands and its dashboard.

    # shop/tasks.py
    @workers.work
    def send_receipt(job: Job[SendReceipt]) -> None: ...

    # shop/views.py
    with transaction.atomic():
        order = Order.objects.create(...)
        insert(SendReceipt(order_id=order.id))

    $ manage.py migrate
    $ manage.py riverui_worker
"""

from riverui.contrib.django.client import (
    ainsert as ainsert,
    ainsert_many as ainsert_many,
    client as client,
    insert as insert,
    insert_many as insert_many,
    insert_on_commit as insert_on_commit,
    sync_client as sync_client,
    worker_client as worker_client,
    workers as workers,
)

__all__ = [
    "ainsert",
    "ainsert_many",
    "client",
    "insert",
    "insert_many",
    "insert_on_commit",
    "sync_client",
    "worker_client",
    "workers",
]
