"""The old names of client methods, which warn and call the new ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from riverui.engine.feature_list import (
    DeadLetterBundle,
    SyncDeadLetterBundle,
    SyncWorkflowBundle,
    WorkflowBundle,
)

P = ParamSpec("P")
T = TypeVar("T")


def _renamed(
    bundle: str, method: Callable[Concatenate[Any, P], T]
) -> Callable[Concatenate[Any, P], T]:
    """Return a method of a client's bundle under its old name."""
    new = f"{bundle}.{method.__name__}"

    @wraps(method)
    def call(self: Any, /, *args: P.args, **given: P.kwargs) -> T:
        warnings.warn(f"deprecated: use client.{new}", DeprecationWarning, stacklevel=2)
        result: T = attrgetter(new)(self)(*args, **given)
        return result

    call.__doc__ = f"Deprecated: use `client.{new}`."
    return call


class DeprecatedMethods:
    """Old names of the asyncio client's methods."""

    dead_letter_get = _renamed("dead_letters", DeadLetterBundle.get)
    dead_letter_get_tx = _renamed("dead_letters", DeadLetterBundle.get_tx)
    dead_letter_list = _renamed("dead_letters", DeadLetterBundle.list)
    dead_letter_list_tx = _renamed("dead_letters", DeadLetterBundle.list_tx)
    dead_letter_retry = _renamed("dead_letters", DeadLetterBundle.retry)
    dead_letter_retry_tx = _renamed("dead_letters", DeadLetterBundle.retry_tx)
    dead_letter_retry_many = _renamed("dead_letters", DeadLetterBundle.retry_many)
    dead_letter_retry_many_tx = _renamed("dead_letters", DeadLetterBundle.retry_many_tx)
    dead_letter_delete = _renamed("dead_letters", DeadLetterBundle.delete)
    dead_letter_delete_tx = _renamed("dead_letters", DeadLetterBundle.delete_tx)
    dead_letter_delete_many = _renamed("dead_letters", DeadLetterBundle.delete_many)
    dead_letter_delete_many_tx = _renamed("dead_letters", DeadLetterBundle.delete_many_tx)

    workflow = _renamed("workflows", WorkflowBundle.new)
    workflow_from = _renamed("workflows", WorkflowBundle.load)
    workflow_from_tx = _renamed("workflows", WorkflowBundle.load_tx)
    workflow_cancel = _renamed("workflows", WorkflowBundle.cancel)
    workflow_cancel_tx = _renamed("workflows", WorkflowBundle.cancel_tx)
    workflow_retry = _renamed("workflows", WorkflowBundle.retry)
    workflow_retry_tx = _renamed("workflows", WorkflowBundle.retry_tx)
    workflow_signal = _renamed("workflows", WorkflowBundle.signal)
    workflow_signal_tx = _renamed("workflows", WorkflowBundle.signal_tx)
    workflow_signal_latest = _renamed("workflows", WorkflowBundle.signal_latest)
    workflow_signal_list = _renamed("workflows", WorkflowBundle.signal_list)
    workflow_wait_diagnose = _renamed("workflows", WorkflowBundle.diagnose_wait)


class SyncDeprecatedMethods:
    """Old names of the methods of a SyncClient."""

    dead_letter_get = _renamed("dead_letters", SyncDeadLetterBundle.get)
    dead_letter_get_tx = _renamed("dead_letters", SyncDeadLetterBundle.get_tx)
    dead_letter_list = _renamed("dead_letters", SyncDeadLetterBundle.list)
    dead_letter_list_tx = _renamed("dead_letters", SyncDeadLetterBundle.list_tx)
    dead_letter_retry = _renamed("dead_letters", SyncDeadLetterBundle.retry)
    dead_letter_retry_tx = _renamed("dead_letters", SyncDeadLetterBundle.retry_tx)
    dead_letter_retry_many = _renamed("dead_letters", SyncDeadLetterBundle.retry_many)
    dead_letter_retry_many_tx = _renamed("dead_letters", SyncDeadLetterBundle.retry_many_tx)
    dead_letter_delete = _renamed("dead_letters", SyncDeadLetterBundle.delete)
    dead_letter_delete_tx = _renamed("dead_letters", SyncDeadLetterBundle.delete_tx)
    dead_letter_delete_many = _renamed("dead_letters", SyncDeadLetterBundle.delete_many)
    dead_letter_delete_many_tx = _renamed("dead_letters", SyncDeadLetterBundle.delete_many_tx)

    workflow = _renamed("workflows", SyncWorkflowBundle.new)
    workflow_from = _renamed("workflows", SyncWorkflowBundle.load)
    workflow_from_tx = _renamed("workflows", SyncWorkflowBundle.load_tx)
    workflow_cancel = _renamed("workflows", SyncWorkflowBundle.cancel)
    workflow_cancel_tx = _renamed("workflows", SyncWorkflowBundle.cancel_tx)
    workflow_retry = _renamed("workflows", SyncWorkflowBundle.retry)
    workflow_retry_tx = _renamed("workflows", SyncWorkflowBundle.retry_tx)
    workflow_signal = _renamed("workflows", SyncWorkflowBundle.signal)
    workflow_signal_tx = _renamed("workflows", SyncWorkflowBundle.signal_tx)
    workflow_signal_latest = _renamed("workflows", SyncWorkflowBundle.signal_latest)
    workflow_signal_list = _renamed("workflows", SyncWorkflowBundle.signal_list)
    workflow_wait_diagnose = _renamed("workflows", SyncWorkflowBundle.diagnose_wait)
