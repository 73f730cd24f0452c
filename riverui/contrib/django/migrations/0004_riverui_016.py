"""Tables of riverui's own, as of version 16 of their line."""

from django.db import migrations

from riverui.contrib.django.tables import RiverMigrations


class Migration(migrations.Migration):  # type: ignore[misc]  # Django comes without types
    """Make the tables of incidents, unless the settings want none."""

    dependencies = (("riverui", "0003_riverui_015"),)

    operations = (RiverMigrations("riverui", since=15, to=16),)
