"""Samples of a cluster's activity contain the oldest open transactions."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.client.admin import activity, transactions
from ottla.client.admin.transactions import TransactionListing
from ottla.client.errors import UnsupportedRequest


def listing(name: str) -> TransactionListing:
    return TransactionListing(transactional_id=name, coordinator=1, producer_id=1, state="Ongoing")


def test_oldest_open_transactions_are_selected_for_description(monkeypatch: pytest.MonkeyPatch) -> None:
    ages_ms = {f"id-{number:03}": number * 1_000 for number in range(100)} | {"zz": 7_200_000}

    def listed(_: Any, *, states: Any, longer_than_ms: int) -> list[TransactionListing]:
        return [listing(name) for name, age_ms in sorted(ages_ms.items()) if age_ms > longer_than_ms]

    monkeypatch.setattr(transactions, "list_transactions", listed)
    chosen = activity.oldest(cast(Any, None), [listing(name) for name in sorted(ages_ms)])
    assert [one.transactional_id for one in chosen[:2]] == ["zz", "id-061"]
    assert len(chosen) == activity.MAX_DESCRIBED
    assert all(ages_ms[one.transactional_id] > 60_000 for one in chosen)


def test_described_transactions_are_limited_if_the_broker_cannot_filter_by_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> list[TransactionListing]:
        raise UnsupportedRequest("ListTransactions has no durations before version 1")

    monkeypatch.setattr(transactions, "list_transactions", refused)
    every = [listing(f"id-{number:03}") for number in range(30)]
    assert activity.oldest(cast(Any, None), every) == every[: activity.MAX_DESCRIBED]
    assert activity.oldest(cast(Any, None), every[:3]) == every[:3]
