"""River's jobs as a Django model, for queries and for the permissions of the dashboard."""

from __future__ import annotations

from typing import Any

from django.db import models

from riverui.contrib.django.config import river_settings
from riverui.contrib.django.tables import JsonField, JsonsField, TextsField, job_table


class JobManager(models.Manager):  # type: ignore[misc]  # Django comes without types
    """Uses the database of the settings by default."""

    def get_queryset(self) -> Any:
        """Return all jobs."""
        found = super().get_queryset()
        return found if self._db else found.using(river_settings().database)


class Job(models.Model):  # type: ignore[misc]  # Django comes without types
    """A job as River stores it, read-only: a client inserts and changes jobs."""

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField()
    queue = models.TextField()
    state = models.TextField()
    priority = models.SmallIntegerField()
    attempt = models.SmallIntegerField()
    max_attempts = models.SmallIntegerField()
    args = JsonField()
    metadata = JsonField()
    tags = TextsField()
    errors = JsonsField(null=True)
    attempted_by = TextsField(null=True)
    created_at = models.DateTimeField()
    scheduled_at = models.DateTimeField()
    attempted_at = models.DateTimeField(null=True)
    finalized_at = models.DateTimeField(null=True)

    objects = JobManager()

    class Meta:
        """River's table, which River's migrations create."""

        managed = False
        db_table = job_table()
        verbose_name = "River job"
        permissions = (("decrypt_job", "Can see encrypted arguments of jobs"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"

    def save(self, *args: object, **kwargs: object) -> None:
        """Raise TypeError: a client inserts and changes jobs."""
        raise TypeError("Jobs are inserted and changed through a client: riverui.contrib.django.")

    def delete(self, *args: object, **kwargs: object) -> None:
        """Raise TypeError: a client deletes jobs."""
        raise TypeError("Jobs are deleted through a client: riverui.contrib.django.")
