"""What the shop keeps."""

from django.db import models


class Order(models.Model):  # type: ignore[misc]
    """What somebody bought."""

    email = models.EmailField()
    total = models.DecimalField(max_digits=10, decimal_places=2)
    receipt_sent_at = models.DateTimeField(null=True)
