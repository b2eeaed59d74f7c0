"""Assertions about the whole state of a log, which hold after every append."""

from __future__ import annotations

from typing import Protocol

from ottla.invariants import MAX_ELEMENTS
from ottla.storage.producer_state import ProducerState


class Offsets(Protocol):
    """The part of a `storage.log.Log` that `check_log` reads."""

    name: str
    producers: ProducerState
    log_start_offset: int
    high_watermark: int

    @property
    def last_stable_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...


def check_log(log: Offsets) -> None:
    """Check that log start <= LSO <= high watermark <= log end, and that both tables of open transactions agree.

    The first offset of each open transaction is in the producer's entry and in `ProducerState.open_txns`.
    """
    offsets = (log.log_start_offset, log.last_stable_offset, log.high_watermark, log.log_end_offset)
    assert list(offsets) == sorted(offsets), f"{log.name}: log start, LSO, high watermark and log end are {offsets}"
    producers = log.producers
    if len(producers.entries) > MAX_ELEMENTS:
        return
    by_producer = {p: e.txn_first_offset for p, e in producers.entries.items() if e.txn_first_offset >= 0}
    assert by_producer == producers.open_txns, f"{log.name}: {by_producer} are open by producer, {producers.open_txns} by log"
    firsts = list(producers.open_txns.values())
    assert firsts == sorted(firsts), f"{log.name}: open transactions out of order, {firsts}"
    assert all(log.log_start_offset <= first <= log.log_end_offset for first in firsts), f"{log.name}: {firsts} not in {offsets}"
