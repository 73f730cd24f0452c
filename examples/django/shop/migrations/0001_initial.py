"""The tables of the shop."""

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]
    """Make them."""

    initial = True

    operations = (
        migrations.CreateModel(
            name="Order",
            fields=(
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("email", models.EmailField(max_length=254)),
                ("total", models.DecimalField(decimal_places=2, max_digits=10)),
                ("receipt_sent_at", models.DateTimeField(null=True)),
            ),
        ),
    )
