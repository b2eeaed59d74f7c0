"""Who took a transactional id over: one line for each producer that is fenced by the next one.

An id's operator sees a producer die of ProducerFencedException and wants to know who it was that came.
"""

from __future__ import annotations

from collections import OrderedDict

import structlog

from ottla.coordinator.transaction.requests import ProducerIdAndEpoch

MAX_BEGUN = 10_000
"""Ids whose open transaction is being aborted for a successor; the oldest are forgotten."""

log = structlog.get_logger("transactions")


class Takeovers:
    """Remembers a fenced producer over the abort of its transaction, until its successor's InitProducerId succeeds."""

    def __init__(self) -> None:
        self._begun: OrderedDict[str, ProducerIdAndEpoch] = OrderedDict()

    def begun(self, transactional_id: str, fenced: ProducerIdAndEpoch) -> None:
        """The id's transaction is aborted for a successor, who must ask again."""
        self._begun.setdefault(transactional_id, fenced)
        if len(self._begun) > MAX_BEGUN:
            self._begun.popitem(last=False)

    def done(
        self, transactional_id: str, before: ProducerIdAndEpoch, now: ProducerIdAndEpoch, client_id: str, client_host: str
    ) -> None:
        """A successor has the id."""
        aborted = self._begun.pop(transactional_id, None)
        fenced = before if aborted is None else aborted
        log.info(
            "transactional_id_taken_over",
            transactional_id=transactional_id,
            fenced_producer_id=fenced.producer_id,
            fenced_epoch=fenced.epoch,
            producer_id=now.producer_id,
            epoch=now.epoch,
            client_id=client_id,
            client_host=client_host,
            aborted_transaction=aborted is not None,
        )
