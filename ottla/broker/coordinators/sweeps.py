"""The timed work of the group and transaction coordinators: timeouts, and the expiry of ids and offsets."""

from __future__ import annotations

from ottla.broker.coordinators.groups import Groups
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.partitions.housekeeping import Housekeeping

GROUP_TICK_MS = 50
"""How often the timeouts of groups are checked, in ms."""
DELETED_OFFSETS_RETRY_MS = 5_000
"""How often the broker retries to remove the remaining offsets of deleted topics, in ms."""


def begin_sweeps(housekeeping: Housekeeping, groups: Groups, transactions: Transactions) -> None:
    """Start the timed work. Kafka's settings give the intervals if Kafka has one."""
    repeat = housekeeping.repeat
    repeat("group_tick", lambda _: GROUP_TICK_MS, groups.tick)
    repeat(
        "transaction_time_outs",
        lambda s: s.transaction_abort_timed_out_transaction_cleanup_interval_ms,
        transactions.abort_timed_out,
    )
    repeat(
        "transactional_id_expiry",
        lambda s: s.transaction_remove_expired_transaction_cleanup_interval_ms,
        transactions.expire_ids,
    )
    repeat("offset_expiry", lambda s: s.offsets_retention_check_interval_ms, groups.expire_offsets)
    repeat("deleted_topics", lambda _: DELETED_OFFSETS_RETRY_MS, groups.forget_topics, is_by_clock=False)
