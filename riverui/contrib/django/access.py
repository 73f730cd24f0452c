"""Rights on the dashboard from Django's users and permissions."""

from __future__ import annotations

from typing import Any

from riverui.errors import Forbidden
from riverui.web.auth.rights import EVERYTHING, RIGHTS, Access
from riverui.web.http.request_context import reading

_PERMISSIONS = {
    "jobs.insert": "add_job",
    "jobs.delete": "delete_job",
    "jobs.decrypt": "decrypt_job",
}
"""Permissions on the model Job by right; all other rights to change anything need `change_job`,
rights to read `view_job`.
"""


def permission(right: str) -> str:
    """Return the Django permission for a right of the dashboard."""
    name = "view_job" if right in reading([right]) else _PERMISSIONS.get(right, "change_job")
    return f"riverui.{name}"


def rights_of(user: Any) -> frozenset[str]:
    """Return the rights of a user from the permissions on riverui's model Job."""
    held = {name for name in set(map(permission, RIGHTS)) if user.has_perm(name)}
    return frozenset(right for right in RIGHTS if permission(right) in held)


def staff(request: Any) -> Access | None:
    """Return the rights of a staff user by permissions, as in Django's admin; None for other users.

    Raise Forbidden, which names the permission, for staff who may not view jobs.
    """
    user = request.user
    if not (user.is_active and user.is_staff):
        return None
    rights = rights_of(user)
    if "jobs.read" not in rights:
        needed = permission("jobs.read")
        raise Forbidden(f"You may not use this dashboard without the permission {needed}.")
    return Access(user=user.get_username(), rights=rights)


def all_staff(request: Any) -> Access | None:
    """Return all rights for a staff user, except decrypting args, which needs its permission; None
    for other users.
    """
    user = request.user
    if not (user.is_active and user.is_staff):
        return None
    rights = EVERYTHING - {"jobs.decrypt"} | rights_of(user)
    return Access(user=user.get_username(), rights=rights)
