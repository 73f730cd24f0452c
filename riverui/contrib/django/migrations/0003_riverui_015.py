"""Tables of riverui's own, as of version 15 of their line."""

from django.db import migrations

from riverui.contrib.django.tables import RiverMigrations


class Migration(migrations.Migration):  # type: ignore[misc]  # Django comes without types
    """Make riverui's own tables, unless the settings want none."""

    dependencies = (("riverui", "0002_river_008"),)

    operations = (RiverMigrations("riverui", since=0, to=15),)
