"""River's tables as of its version 8."""

from django.db import migrations

from riverui.contrib.django.tables import RiverMigrations


class Migration(migrations.Migration):  # type: ignore[misc]  # Django comes without types
    """Bring River's tables to version 8."""

    dependencies = (("riverui", "0001_river"),)

    operations = (RiverMigrations("main", since=5, to=8),)
