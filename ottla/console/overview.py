"""The page ``overview``: a summary of the broker or cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from msgspec import to_builtins

from ottla.broker.view.groups import GroupLag, GroupListing
from ottla.broker.view.partitions import Totals
from ottla.console.cluster_view import ClusterView
from ottla.console.page_request import Asked
from ottla.control.command import ControlledBroker

NEWEST_SHOWN: Final = 20
"""Maximum number of transactional ids shown: those with the newest events."""
HELD_SHOWN: Final = 20

STRAYS_SHOWN: Final = 20
LAGS_PER_S: Final = 100
"""Number of groups whose lag an open overview reads per second on average: with 1,000 groups, the lags are read every ten
seconds."""


def overview(asked: Asked) -> dict[str, Any]:
    view = asked.view
    listed = view.topics()
    topics = [topic for topic in listed if not topic.is_internal]
    totals = view.totals(HELD_SHOWN)
    groups, transactions, reported = view.groups(), view.transactions(), view.reported_strays()
    return {
        **to_builtins(view.health()),
        **asked.loop.read(_controlled),
        **to_builtins(totals),
        "held": _held(view, totals),
        "reported_strays": reported[:STRAYS_SHOWN],
        "more_reported_strays": len(reported[STRAYS_SHOWN:]),
        "brokers": view.brokers(),
        "topics": len(topics),
        "internal_topics": len(listed) - len(topics),
        "partitions": sum(topic.partitions for topic in topics),
        "largest_lag": _largest_lag(asked, groups.rows),
        "groups": Counter(group.state for group in groups.rows),
        "transactions": Counter(transaction.state for transaction in transactions.rows),
        "missing": [*groups.missing, *transactions.missing],
    }


def _largest_lag(asked: Asked, groups: Sequence[GroupListing]) -> GroupLag | None:
    """Return the lag of the group that has the largest; None without a lag. The lags of many groups are read only now and then."""
    names = {group.group_id for group in groups}
    if not names:
        return None
    lags = asked.last_read.get(int(time.monotonic() * LAGS_PER_S / len(names)), lambda: asked.view.quick_lags(list(names)))
    # A group may have been deleted since its lag was read.
    known = [lag for lag in lags if lag.lag and lag.group_id in names]
    return max(known, key=lambda lag: (lag.lag, lag.group_id), default=None)


def _held(view: ClusterView, totals: Totals) -> list[dict[str, Any]]:
    """Return the partitions that hold back read_committed consumers, each with the transactional id that they wait for."""
    ids = view.holding_ids([(held.topic, held.partition) for held in totals.held]) if totals.held else []
    return [{**to_builtins(held), "transactional_id": name} for held, name in zip(totals.held, ids, strict=True)]


def _controlled(controlled: ControlledBroker) -> dict[str, Any]:
    return {
        "faults": len(controlled.faults),
        # Only a manual clock is shown. The machine's clock would change the page every second.
        "clock_ms": None if controlled.clock is None else controlled.clock.now_ms(),
        "newest": controlled.history.newest(NEWEST_SHOWN),
    }
