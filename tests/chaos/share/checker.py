"""Checks the history of a share group: compares deliveries and acknowledgements with the produced records. It does no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.chaos.share.history import ACCEPT, REJECT, RELEASE, Acknowledgement, Delivery, Place, ShareHistory

MAX_FINDINGS = 20
"""Maximum number of findings per rule, because one fault may affect many records."""
HIDDEN_DELIVERIES = 2
"""Number of deliveries of a record that may be missing from the history, because a member was killed or lost its session."""


def check(history: ShareHistory) -> list[str]:
    findings: list[str] = []
    for rule in RULES:
        findings += [finding for _, finding in zip(range(MAX_FINDINGS), rule(history), strict=False)]
    return findings


def _carried_out(history: ShareHistory) -> Iterator[tuple[Acknowledgement, float]]:
    """Yield the acknowledgements that were answered without an error and had an effect, with the times of the responses.

    As in Apache Kafka, an acknowledgement of a record below the start offset is ignored without an error. Such a record may be
    delivered again: if its lock expired at the last delivery while the share coordinator was unavailable, the record was archived
    in memory only.
    """
    by_delivery: dict[tuple[str, Place, int], list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        by_delivery[delivery.member, delivery.place, delivery.number].append(delivery)
    for ack in history.acknowledgements:
        if ack.answered_s is None or ack.error is not None:
            continue
        deliveries = by_delivery[ack.member, ack.place, ack.count]
        since_s = max((d.since_s for d in deliveries if d.at_s <= ack.asked_s), default=0.0)
        had_ended = ack.answered_s > since_s + history.lock_s and ack.count >= history.delivery_limit
        if not (had_ended and _is_disrupted(history, since_s, ack.answered_s)):
            yield ack, ack.answered_s


def not_after_acknowledgement(history: ShareHistory) -> Iterator[str]:
    """Check that a record is not delivered after its acceptance or rejection was answered without an error."""
    ended_s: dict[Place, float] = {}
    for ack, answered_s in _carried_out(history):
        if ack.kind in (ACCEPT, REJECT):
            ended_s[ack.place] = min(answered_s, ended_s.get(ack.place, answered_s))
    for delivery in history.deliveries:
        if delivery.place in ended_s and delivery.since_s > ended_s[delivery.place]:
            late_s = delivery.since_s - ended_s[delivery.place]
            what = f"{delivery.place} to {delivery.member} as delivery {delivery.number}"
            yield f"delivered after its acknowledgement: {what}, {late_s:.3f} s after the answer"


def none_lost(history: ShareHistory) -> Iterator[str]:
    """Check that each record was accepted or rejected, or was delivered as often as the delivery limit permits."""
    for partition, lag in history.lags.items():
        if lag != 0:
            yield f"not finished: {lag} records of partition {partition}"
    ended = {ack.place for ack in history.acknowledgements if ack.kind in (ACCEPT, REJECT)}
    highest: Counter[Place] = Counter()
    places = {value: place for place, value in history.produced.items()}
    for delivery in history.deliveries:
        highest[delivery.place] = max(highest[delivery.place], delivery.number)
        places.setdefault(delivery.value, delivery.place)
    for value in sorted(history.unplaced - places.keys()):
        yield f"lost: {value}, which was never delivered"
    for place, value in sorted(
        (places[value], value) for value in (*history.produced.values(), *(history.unplaced & places.keys()))
    ):
        if place not in ended and highest[place] + HIDDEN_DELIVERIES < history.delivery_limit:
            yield f"lost: {value} at {place} was delivered {highest[place]} times, and neither accepted nor rejected"


def counts_never_decrease(history: ShareHistory) -> Iterator[str]:
    """Check that the delivery count of a record increases with each delivery, up to the limit.

    Acquiring a record is not persisted, so a broker failure may reset the count of a delivery that was not released. If the
    release of a delivery was answered without an error, its count must be kept.
    """
    released: dict[Place, list[tuple[float, int]]] = defaultdict(list)
    for ack, answered_s in _carried_out(history):
        if ack.kind == RELEASE:
            released[ack.place].append((answered_s, ack.count))
    by_place: dict[Place, list[Delivery]] = defaultdict(list)
    for delivery in history.deliveries:
        by_place[delivery.place].append(delivery)
        if not 1 <= delivery.number <= history.delivery_limit:
            yield f"delivery {delivery.number} of {delivery.place}, and the limit is {history.delivery_limit}"
        floor = max((count for at_s, count in released[delivery.place] if at_s < delivery.since_s), default=0)
        if delivery.number <= floor:
            yield f"delivery count decreased: {delivery.place} has delivery {delivery.number} after delivery {floor} was released"
    for place, deliveries in by_place.items():
        deliveries.sort(key=lambda d: d.since_s)
        for number, later in enumerate(deliveries):
            for earlier in deliveries[:number]:
                grows = later.number > earlier.number or earlier.at_s >= later.since_s
                if not grows and not _is_disrupted(history, earlier.since_s, later.at_s):
                    yield f"delivery count decreased: {place} has {later.number} after {earlier.number}, without a failure between"


def _is_disrupted(history: ShareHistory, from_s: float, to_s: float) -> bool:
    return any(begin_s <= to_s and end_s >= from_s for begin_s, end_s in history.disruptions)


def start_offset_never_returns(history: ShareHistory) -> Iterator[str]:
    """Check that the start offset of a partition never decreases, and that no record below it is delivered."""
    answers: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for answer in sorted(history.start_offsets, key=lambda a: a.answered_s):
        for partition, offset in answer.offsets.items():
            before = _highest_before(answers[partition], answer.asked_s)
            if offset < before:
                yield f"start offset decreased: partition {partition} has {offset} after {before}"
            last = answers[partition][-1][1] if answers[partition] else 0
            answers[partition].append((answer.answered_s, max(offset, last)))
    for delivery in history.deliveries:
        partition, offset = delivery.place
        start = _highest_before(answers[partition], delivery.since_s)
        if offset < start:
            yield f"delivered below the start offset: {delivery.place} to {delivery.member}, and the partition starts at {start}"


def _highest_before(answers: list[tuple[float, int]], at_s: float) -> int:
    """Return the start offset in the last response before a time, or 0. Responses are sorted by time."""
    number = bisect_right(answers, at_s, key=lambda answer: answer[0])
    return answers[number - 1][1] if number else 0


def only_what_was_produced(history: ShareHistory) -> Iterator[str]:
    """Check that members receive only records that the producer has sent, each at its partition and offset."""
    for delivery in history.deliveries:
        if delivery.value not in history.sent:
            yield f"unknown record: {delivery.value!r} at {delivery.place}"
        elif history.produced.get(delivery.place, delivery.value) != delivery.value:
            yield f"other record: {delivery.value} at {delivery.place}, where {history.produced[delivery.place]} was written"


RULES = (not_after_acknowledgement, none_lost, counts_never_decrease, start_offset_never_returns, only_what_was_produced)
