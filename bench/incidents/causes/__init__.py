"""All incidents and oddities by name."""

from __future__ import annotations

from bench.incidents.causes import database, load, outcomes, workers
from bench.incidents.causes.oddities import BEFORE as BEFORE, ODDITIES as ODDITIES

CAUSES = workers.CAUSES | database.CAUSES | load.CAUSES | outcomes.CAUSES
