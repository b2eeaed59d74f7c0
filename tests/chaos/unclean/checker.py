"""Checks the remaining logs: each lost batch must be explained by an unclean election. It does no I/O.

A batch that was seen below a high watermark may be missing only if an unclean election in a later leader epoch chose a replica
without the batch. At the offset of the batch, the remaining log then has one of three contents: a batch of that epoch or a later
one; the end of the log; or a batch of an earlier epoch. The third case occurs if an isolated leader wrote the batch, a first
unclean election chose another broker, and a second unclean election chose the isolated leader.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import replace

from ottla.protocol.topic_partition import TopicPartition
from ottla.simulation import checker
from ottla.simulation.checker import Observation, Shown
from ottla.simulation.history import COMMITTED, Attempt, History
from tests.chaos.unclean.elections import UNCLEAN, Election
from tests.chaos.unclean.witness import Identity, Sightings

Log = dict[int, Identity]
"""The batches of a log by base offset."""


class Losses:
    """The batches that unclean elections may have removed from the remaining logs."""

    def __init__(self, logs: dict[TopicPartition, Log], elections: Iterable[Election]) -> None:
        self._logs = logs
        self._epochs: dict[TopicPartition, list[int]] = defaultdict(list)
        for election in elections:
            if election.kind == UNCLEAN:
                self._epochs[election.where].append(election.leader_epoch)

    @property
    def affected(self) -> frozenset[TopicPartition]:
        """Partitions with at least one unclean election."""
        return frozenset(self._epochs)

    def permits(self, where: TopicPartition, base_offset: int, leader_epoch: int) -> bool:
        """Whether an unclean election explains that a batch is missing."""
        later = [epoch for epoch in self._epochs.get(where, ()) if epoch > leader_epoch]
        log = self._logs.get(where, {})
        left = next((i.leader_epoch for base, i in log.items() if base <= base_offset < i.next_offset), None)
        if left is None:
            # An election never leaves a gap in the log, so the log must end at or before the batch.
            return bool(later) and all(identity.next_offset <= base_offset for identity in log.values())
        return any(left >= epoch or left < leader_epoch for epoch in later)


def batches_stay(sightings: Sightings, logs: dict[TopicPartition, Log], losses: Losses) -> Iterator[str]:
    """Check that no batch seen below a high watermark was changed or lost, except by an unclean election."""
    yield from sightings.findings
    for where, by_offset in sorted(sightings.batches.items()):
        log = logs.get(where, {})
        for base_offset, identities in sorted(by_offset.items()):
            for identity in sorted(identities):
                left = log.get(base_offset)
                if left != identity and not losses.permits(where, base_offset, identity.leader_epoch):
                    became = "is missing" if left is None else f"is {left}"
                    yield f"committed batch gone: {where} at {base_offset}, seen as {identity}, {became}"


def epochs_never_return(logs: dict[TopicPartition, Log]) -> Iterator[str]:
    """Check that the leader epochs of the batches in a log never decrease."""
    for where, log in sorted(logs.items()):
        highest = -1
        for base_offset, identity in sorted(log.items()):
            if identity.leader_epoch < highest:
                yield f"leader epoch decreased: {where} at {base_offset} has epoch {identity.leader_epoch} after {highest}"
            highest = max(highest, identity.leader_epoch)


def acknowledged_or_lost(history: History, seen: Observation, sightings: Sightings, losses: Losses) -> Iterator[str]:
    """Check that each acknowledged record is visible, or that an unclean election explains its loss.

    If a record was never read, any unclean election of its partition explains the loss. A record that is stored but not
    visible belongs to a transaction whose marker was lost.
    """
    visible = {value for records in seen.committed.values() for _, value in records}
    left = {value for records in seen.uncommitted.values() for _, value in records}
    for attempt in history.attempts:
        for record in attempt.records if attempt.outcome == COMMITTED else ():
            if record.value in visible or (record.value in left and record.where in losses.affected):
                continue
            where, base_offset, identity = sightings.values.get(record.value, (record.where, -1, None))
            if not (losses.permits(where, base_offset, identity.leader_epoch) if identity else where in losses.affected):
                yield f"lost: {record.value} for {record.where} of {attempt.name}, without an election that explains it"


def restricted(
    history: History,
    seen: Observation,
    affected: Set[TopicPartition],
    offsets_partition: Callable[[str], TopicPartition],
) -> tuple[History, Observation]:
    """Return what clients sent and what was read afterwards, without the partitions that had an unclean election. For the other
    partitions all rules must hold.

    ``offsets_partition`` returns the partition that stores a group's offsets. A group is left out if its offsets, its input or its
    output is affected by an unclean election.
    """
    dropped = {str(a.group) for a in history.attempts if a.group and _is_affected(a, affected, offsets_partition)}

    def kept(attempt: Attempt) -> Attempt:
        is_dropped = attempt.group in dropped
        return replace(
            attempt,
            records=[record for record in attempt.records if record.where not in affected],
            group=None if is_dropped else attempt.group,
            offsets={} if is_dropped else attempt.offsets,
        )

    def unaffected(shown: Shown) -> Shown:
        return {where: records for where, records in shown.items() if where not in affected}

    kept_history = replace(
        history,
        attempts=[kept(attempt) for attempt in history.attempts],
        watched=[watched for watched in history.watched if watched.where not in affected],
        offsets_read=[answer for answer in history.offsets_read if answer.group not in dropped],
    )
    kept_seen = replace(
        seen,
        committed=unaffected(seen.committed),
        uncommitted=unaffected(seen.uncommitted),
        stored={where: batches for where, batches in seen.stored.items() if where not in affected},
        offsets={group: offsets for group, offsets in seen.offsets.items() if group not in dropped},
        others={name: unaffected(shown) for name, shown in seen.others.items()},
    )
    return kept_history, kept_seen


def _is_affected(attempt: Attempt, affected: Set[TopicPartition], offsets_partition: Callable[[str], TopicPartition]) -> bool:
    wheres = {record.where for record in attempt.records} | attempt.offsets.keys()
    return bool(wheres & affected) or offsets_partition(str(attempt.group)) in affected


def check(
    history: History,
    seen: Observation,
    sightings: Sightings,
    logs: dict[TopicPartition, Log],
    elections: Iterable[Election],
    offsets_partition: Callable[[str], TopicPartition],
) -> list[str]:
    """Check all rules for partitions without an unclean election, and the rules of this module for all partitions.

    Returns the findings.
    """
    losses = Losses(logs, elections)
    findings = [*batches_stay(sightings, logs, losses), *epochs_never_return(logs)]
    findings += checker.check(*restricted(history, seen, losses.affected, offsets_partition))
    if losses.affected:
        findings += acknowledged_or_lost(history, seen, sightings, losses)
        findings += [*checker.nothing_else(history, seen), *checker.views_agree(history, seen)]
    return list(dict.fromkeys(findings))[: checker.MAX_FINDINGS]


def fates(sightings: Sightings, logs: dict[TopicPartition, Log]) -> Counter[str]:
    """Count the seen batches that the remaining logs have and those that they lack."""
    return Counter(
        "kept" if logs.get(where, {}).get(base_offset) == identity else "lost"
        for where, by_offset in sightings.batches.items()
        for base_offset, identities in by_offset.items()
        for identity in identities
    )
