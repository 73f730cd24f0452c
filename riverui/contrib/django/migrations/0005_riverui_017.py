"""Tables of riverui's own, as of version 17 of their line."""

from django.db import migrations

from riverui.contrib.django.tables import RiverMigrations


class Migration(migrations.Migration):  # type: ignore[misc]  # Django comes without types
    """Add the processor time of jobs to figures, unless the settings want no tables."""

    dependencies = (("riverui", "0004_riverui_016"),)

    operations = (RiverMigrations("riverui", since=16, to=17),)
