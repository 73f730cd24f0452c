"""The guide's Python is run, page by page, as a reader would: each page is one program."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.programs import BLOCK, DOCS, run

GUIDE = (
    "getting-started",
    "inserting",
    "without-asyncio",
    "writing-workers",
    "results",
    "batching",
    "encryption",
    "periodic",
    "workflows",
    "workflow-waits",
    "sequences",
    "ephemeral-jobs",
    "operating",
    "extending",
    "testing",
    "dead-letters",
    "concurrency-limits",
    "fair-shares",
    "rate-limits",
    "durable-periodic-jobs",
    "coming-from",
    "guarantees",
    "leader",
