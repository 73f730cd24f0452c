"""Evaluate CEL expressions in a process of its own, so that none can block or exhaust the program:
the library limits neither time nor memory.
"""

from __future__ import annotations

from riverui.actions.expressions.check import check_wait
from riverui.actions.expressions.child import Evaluation
from riverui.actions.expressions.evaluator import ExpressionLimits, Expressions

__all__ = ["Evaluation", "ExpressionLimits", "Expressions", "check_wait"]
