"""River's tables as of its version 5.

Version 4 adds a value to an enum, which cannot be used before it is committed. Version 6 uses it,
and so is a part of the next migration.
"""

from django.db import migrations, models

from riverui.contrib.django.tables import (
    JsonField,
    JsonsField,
    RiverMigrations,
    TextsField,
    job_table,
)


class Migration(migrations.Migration):  # type: ignore[misc]  # Django comes without types
    """Make River's tables, as they were with version 5."""

    initial = True

    operations = (
        RiverMigrations("main", since=0, to=5),
        # Django knows of the table, for permissions and queries, but leaves it to River.
        migrations.CreateModel(
            name="Job",
            fields=(
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.TextField()),
                ("queue", models.TextField()),
                ("state", models.TextField()),
                ("priority", models.SmallIntegerField()),
                ("attempt", models.SmallIntegerField()),
                ("max_attempts", models.SmallIntegerField()),
                ("args", JsonField()),
                ("metadata", JsonField()),
                ("tags", TextsField()),
                ("errors", JsonsField(null=True)),
                ("attempted_by", TextsField(null=True)),
                ("created_at", models.DateTimeField()),
                ("scheduled_at", models.DateTimeField()),
                ("attempted_at", models.DateTimeField(null=True)),
                ("finalized_at", models.DateTimeField(null=True)),
            ),
            options={
                "db_table": job_table(),
                "managed": False,
                "permissions": (("decrypt_job", "Can see encrypted arguments of jobs"),),
                "verbose_name": "River job",
            },
        ),
    )
