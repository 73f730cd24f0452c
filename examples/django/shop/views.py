"""What customers can do."""

from django.db import transaction
from django.http import HttpRequest, JsonResponse

from riverui.contrib.django import ainsert, insert

from .jobs import SendReceipt
from .models import Order


def order(request: HttpRequest) -> JsonResponse:
    """Take an order. It is stored together with the job that sends its receipt, or not at all."""
    with transaction.atomic():
        placed = Order.objects.create(email=request.POST["email"], total=request.POST["total"])
        insert(SendReceipt(order_id=placed.id), queue="mail")
    return JsonResponse({"id": placed.id}, status=201)


async def quick_order(request: HttpRequest) -> JsonResponse:
    """Take an order in an asynchronous view."""
    placed = await Order.objects.acreate(email=request.POST["email"], total=request.POST["total"])
    await ainsert(SendReceipt(order_id=placed.id), queue="mail")
    return JsonResponse({"id": placed.id}, status=201)
