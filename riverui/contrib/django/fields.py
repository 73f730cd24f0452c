"""Columns of River's that Django's own fields do not have, to be read.

Django's ArrayField is no choice: it asks a project to install `django.contrib.postgres`.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import models


class TextsField(models.Field):  # type: ignore[misc]  # Django comes without types
    """An array of texts, as a list."""

    def db_type(self, connection: object) -> str:
        """Return the type of the column."""
        return "text[]"


class JsonsField(models.Field):  # type: ignore[misc]  # Django comes without types
    """An array of JSON values, as a list."""

    def db_type(self, connection: object) -> str:
        """Return the type of the column."""
        return "jsonb[]"

    def from_db_value(self, value: Any, expression: object, connection: object) -> Any:
        """Return the values, which Django asks the driver to leave as text."""
        if value is None:
            return None
        return [json.loads(each) if isinstance(each, str) else each for each in value]
