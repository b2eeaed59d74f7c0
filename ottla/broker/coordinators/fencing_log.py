"""Logs an event when a new producer of a transactional id fences the previous one.

If a producer fails with ProducerFencedException, the log shows which producer has fenced it.
"""

from __future__ import annotations

from collections import OrderedDict

import structlog

from ottla.broker.hooks.transaction_history import Asker, Happened, Kind, TransactionListener, cut
from ottla.broker.loop.env import Clock
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch

MAX_REMEMBERED_ABORTS = 10_000
"""Maximum number of aborts that are remembered until the new producer's InitProducerId succeeds.

The oldest abort is forgotten first.
"""

log = structlog.get_logger("transactions")


class FencingLog:
    """Logs fencings. Remembers a fenced producer from its transaction's abort until its successor's InitProducerId succeeds."""

    def __init__(self, clock: Clock, listener: TransactionListener | None = None) -> None:
        self._clock = clock
        self._listener = listener
        self._aborted: OrderedDict[str, ProducerIdAndEpoch] = OrderedDict()

    def note_abort(self, transactional_id: str, fenced: ProducerIdAndEpoch) -> None:
        """Note that another client's InitProducerId has aborted an open transaction. That client must repeat the request."""
        self._aborted.setdefault(transactional_id, fenced)
        if len(self._aborted) > MAX_REMEMBERED_ABORTS:
            self._aborted.popitem(last=False)

    def forget_abort(self, transactional_id: str) -> None:
        """Forget the abort, because InitProducerId succeeded without fencing another producer."""
        self._aborted.pop(transactional_id, None)

    def note_new_owner(
        self, transactional_id: str, before: ProducerIdAndEpoch, now: ProducerIdAndEpoch, client_id: str, client_host: str
    ) -> None:
        """Log that the transactional id has a new owner, and which producer it has fenced."""
        aborted = self._aborted.pop(transactional_id, None)
        fenced = before if aborted is None else aborted
        log.info(
            "producer_fenced",
            transactional_id=transactional_id,
            fenced_producer_id=fenced.producer_id,
            fenced_producer_epoch=fenced.epoch,
            producer_id=now.producer_id,
            producer_epoch=now.epoch,
            client_id=client_id,
            client_host=client_host,
            aborted_transaction=aborted is not None,
        )
        if self._listener is not None:
            self._listener.happened(
                Happened(
                    time_ms=self._clock.now_ms(),
                    kind=Kind.FENCED,
                    transactional_id=transactional_id,
                    producer_id=fenced.producer_id,
                    producer_epoch=fenced.epoch,
                    new_producer_id=now.producer_id,
                    new_producer_epoch=now.epoch,
                    asker=Asker(client_id=cut(client_id), client_host=client_host),
                )
            )
