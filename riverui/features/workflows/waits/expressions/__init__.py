"""Evaluate CEL expressions in a process of its own, so that none can block or exhaust the program:
the library limits neither time nor memory.
"""

from __future__ import annotations

from riverui.features.workflows.waits.expressions.check import check_wait
from riverui.features.workflows.waits.expressions.child import Evaluation
from riverui.features.workflows.waits.expressions.evaluator import ExpressionLimits, Expressions

__all__ = ["Evaluation", "ExpressionLimits", "Expressions", "check_wait"]
