"""The jobs of the shop, and what works them."""

from dataclasses import dataclass
from typing import ClassVar

from django.core.mail import send_mail
from django.utils import timezone

from riverui import Job
from riverui.contrib.django import workers

from .models import Order


@dataclass
class SendReceipt:
    """Asks for the receipt of an order."""

    kind: ClassVar[str] = "send_receipt"

    order_id: int


@workers.work
def send_receipt(job: Job[SendReceipt]) -> None:
    """Send the receipt of an order, unless an earlier attempt did."""
    order = Order.objects.get(id=job.args.order_id)
    if order.receipt_sent_at is None:
        send_mail(f"Order {order.id}", f"You paid {order.total}.", None, [order.email])
        order.receipt_sent_at = timezone.now()
        order.save(update_fields=["receipt_sent_at"])
