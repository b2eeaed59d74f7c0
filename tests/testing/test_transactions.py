"""A transaction of a `Broker` object belongs to the process that created it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from ottla.testing.transactions import Transaction


class NoCluster:
    """Requests that fail, because a transaction of another process may send none."""

    def cluster(self) -> Any:
        raise AssertionError("a request was sent")

    write = cluster


@pytest.fixture
def of_parent(monkeypatch: pytest.MonkeyPatch) -> Transaction:
    questions: Any = NoCluster()
    transaction = Transaction(questions, "checkout-1", 60.0)
    producer: Any = object()
    monkeypatch.setattr(transaction, "_producer", producer)
    monkeypatch.setattr(transaction, "_is_open", True)
    assert transaction.is_open
    parent = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    return transaction


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.begin(),
        lambda t: t.produce("orders", ["a"]),
        lambda t: t.commit_offsets("billing", {("orders", 0): 1}),
        lambda t: t.commit(),
        lambda t: t.abort(),
        lambda t: t.is_open,
        lambda t: t.__enter__(),
    ],
)
def test_use_of_a_transaction_in_a_forked_child_is_refused(of_parent: Transaction, use: Callable[[Transaction], object]) -> None:
    with pytest.raises(RuntimeError) as refused:
        use(of_parent)
    assert str(refused.value) == f"this transaction belongs to process {os.getpid() - 1}; begin a transaction in this process"


def test_leaving_a_transaction_block_in_a_forked_child_does_nothing(of_parent: Transaction) -> None:
    of_parent.__exit__(None, None, None)
    error = ValueError("of the block")
    of_parent.__exit__(ValueError, error, None)
    assert not hasattr(error, "__notes__")
    assert repr(of_parent) == f"<ottla.Transaction 'checkout-1' of process {os.getpid() - 1}>"
