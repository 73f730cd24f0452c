"""River's jobs in Django's admin: a link to the dashboard."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import NoReverseMatch, reverse

from riverui.contrib.django.models import Job


class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]  # Django comes without types
    """Links the index to the dashboard."""

    def changelist_view(self, request: HttpRequest, extra_context: object = None) -> Any:
        """Redirect to the dashboard."""
        try:
            return HttpResponseRedirect(reverse("riverui:dashboard"))
        except NoReverseMatch:
            words = (
                "The dashboard has no address yet: include riverui.contrib.django.urls in urls.py."
            )
            messages.error(request, words)
            return HttpResponseRedirect(reverse("admin:index"))

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Return False: jobs are inserted on the dashboard."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: jobs are changed on the dashboard."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: object = None) -> bool:
        """Return False: jobs are deleted on the dashboard."""
        return False


admin.site.register(Job, JobAdmin)
