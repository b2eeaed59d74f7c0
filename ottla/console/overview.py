"""The page ``overview``: a summary of the broker or cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import to_builtins

from ottla.broker.view.groups import GroupLag, GroupListing
from ottla.client.errors import NO_RESULT
from ottla.console.cluster_view import ClusterView
from ottla.console.page_request import Asked
from ottla.control.command import ControlledBroker

NEWEST_SHOWN: Final = 20
"""Maximum number of transactional ids shown: those with the newest events."""
HELD_SHOWN: Final = 20

STRAYS_SHOWN: Final = 20


def overview(asked: Asked) -> dict[str, Any]:
    view = asked.view
    listed = view.topics()
    topics = [topic for topic in listed if not topic.is_internal]
    totals, transactional_ids = view.totals(HELD_SHOWN)
    groups, transactions, reported = view.groups(), view.transactions(), view.reported_strays()
    return {
        **to_builtins(view.health()),
        **asked.loop.read(_controlled),
        **to_builtins(totals),
        "held": [
            {**to_builtins(held), "transactional_id": name} for held, name in zip(totals.held, transactional_ids, strict=True)
        ],
        "reported_strays": reported[:STRAYS_SHOWN],
        "more_reported_strays": len(reported[STRAYS_SHOWN:]),
        "brokers": view.brokers(),
        "topics": len(topics),
        "internal_topics": len(listed) - len(topics),
        "partitions": sum(topic.partitions for topic in topics),
        **_lags(view, groups.rows),
        "groups": Counter(group.state for group in groups.rows),
        "transactions": Counter(transaction.state for transaction in transactions.rows),
        "missing": [*groups.missing, *transactions.missing],
    }


def _lags(view: ClusterView, groups: Sequence[GroupListing]) -> dict[str, Any]:
    """Return the lag of the group that has the largest (None without a lag), and the number of groups whose lag is not known in
    all partitions. The lags of many groups may be up to `kept_reads.LONGEST_S` seconds old."""
    names = {group.group_id for group in groups}
    lags: list[GroupLag] = []
    if names:
        with suppress(*NO_RESULT):
            # A group may have been deleted since its lag was read.
            lags = [lag for lag in view.quick_lags(list(names)) if lag.group_id in names]
    return {
        "largest_lag": max((lag for lag in lags if lag.lag), key=lambda lag: (lag.lag, lag.group_id), default=None),
        "unknown_lags": len(names) - sum(not lag.unknown for lag in lags),
    }


def _controlled(controlled: ControlledBroker) -> dict[str, Any]:
    return {
        "faults": len(controlled.faults),
        # Only a manual clock is shown. The machine's clock would change the page every second.
        "clock_ms": None if controlled.clock is None else controlled.clock.now_ms(),
        "newest": controlled.history.newest(NEWEST_SHOWN),
    }
