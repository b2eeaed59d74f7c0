"""Aborts a transaction."""

from __future__ import annotations

import msgspec

from ottla.client.admin import transactions
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.console.actions.action import ActionClients, Effects, Name, named, shortened


class AbortTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Abort the open transaction of a transactional id, and fence its producer.

    ``producer_id`` and ``producer_epoch`` are those that the page shows, so that a newer transaction of the id is not aborted.
    """

    id: Name
    producer_id: int
    producer_epoch: int

    def preview(self, to: ActionClients) -> Effects:
        known = self._known(to.brokers)
        return Effects(
            command=["txn", "abort", *named(self.id)],
            warning=f"the producer {known.producer_id} epoch {known.epoch} is fenced: its next request fails",
            columns=["partition in the transaction"],
            **shortened([[f"{topic}:{index}"] for topic, index in known.partitions]),
        )

    def run(self, to: ActionClients) -> Effects:
        transactions.abort(to.brokers, self.id, self._known(to.brokers))
        said = f"the transaction of {self.id} was aborted, and its producer is fenced"
        return Effects(said=said, page="transaction", parameters={"id": self.id})

    def _known(self, brokers: BrokerConnections) -> transactions.TransactionDescription:
        """Return the transaction that the page shows. Raises `ClientError` if it has ended."""
        known = transactions.describe(brokers, self.id)
        if not known.is_ongoing:
            raise ClientError(f"transactional id {self.id!r} has no open transaction: it is {known.state}")
        if (known.producer_id, known.epoch) != (self.producer_id, self.producer_epoch):
            raise ClientError(f"transactional id {self.id!r} has begun another transaction meanwhile; reload the page to see it")
        return known
