"""The shop's tests: `python manage.py test`."""

from django.core import mail
from django.core.exceptions import ValidationError
from django.test import TestCase, TransactionTestCase

from riverui.contrib.django.testing import require_inserted, require_not_inserted, work_jobs

from .jobs import SendReceipt
from .models import Order

FORM = {"email": "ann@example.com", "total": "3.50"}


class OrderTests(TestCase):  # type: ignore[misc]
    """What happens in a test is undone at its end, its jobs too."""

    def test_an_order_comes_with_its_job(self) -> None:
        placed = self.client.post("/orders/", FORM).json()
        require_inserted(SendReceipt(order_id=placed["id"]), queue="mail")

    def test_the_receipt_is_sent(self) -> None:
        self.client.post("/orders/", FORM)
        work_jobs()
        assert [sent.to for sent in mail.outbox] == [["ann@example.com"]]
        assert Order.objects.get().receipt_sent_at is not None

    def test_a_bad_order_leaves_neither_row_nor_job(self) -> None:
        with self.assertRaises(ValidationError):  # noqa: PT027
            self.client.post("/orders/", {**FORM, "total": "much"})
        assert not Order.objects.exists()
        require_not_inserted(SendReceipt)

    async def test_the_asynchronous_view(self) -> None:
        await self.async_client.post("/quick-orders/", FORM)
        assert await Order.objects.acount() == 1


class CommittedTests(TransactionTestCase):  # type: ignore[misc]
    """Transactions really end, and all tables are emptied behind each test, River's too."""

    def test_one_order(self) -> None:
        self.client.post("/orders/", FORM)
        require_inserted(SendReceipt)

    def test_another_order(self) -> None:
        self.client.post("/orders/", FORM)
        require_inserted(SendReceipt)
        work_jobs()
        assert len(mail.outbox) == 1
