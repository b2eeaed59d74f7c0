"""Timeouts of the public test API have one name with a unit."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import ottla
from ottla.control.faults.remote_faults import RemoteFault
from ottla.testing.async_operations import AsyncOperations, AsyncTransaction
from ottla.testing.transactions import Transaction

OBJECTS = [getattr(ottla, name) for name in ottla.__all__ if name != "__version__"]
RETURNED = [RemoteFault, AsyncOperations, AsyncTransaction, Transaction]
"""Classes that methods of `Broker` and `Cluster` return."""


def timeouts() -> Iterator[tuple[str, str]]:
    """Return the name of each public function and each of its parameters that is a timeout."""
    for owner in (*OBJECTS, *RETURNED):
        for name, function in inspect.getmembers(owner, inspect.isfunction):
            if name == "__init__" or not name.startswith("_"):
                where = f"{owner.__name__}.{name}"
                yield from ((where, each) for each in inspect.signature(function).parameters if "timeout" in each)


def test_every_timeout_parameter_of_the_testing_api_is_named_timeout_s() -> None:
    names = dict(timeouts())
    assert {"Broker.expect", "Cluster.consume", "AsyncOperations.wait_for", "RemoteFault.wait"} <= set(names)
    assert set(names.values()) == {"timeout_s"}, names
