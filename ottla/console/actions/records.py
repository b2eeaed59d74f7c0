"""Produces a record, and deletes records."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from ottla.client.admin.places import Place
from ottla.client.admin.record_deletion import delete_records, planned_deletions
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError
from ottla.client.records.producing import TopicProducer
from ottla.client.records.record import NewRecord
from ottla.client.records.transactional_producer import transaction_of
from ottla.client.wording import counted, up_to_records
from ottla.console.actions.action import ActionClients, Effects, Name, Offset, Partition, named, option, shortened
from ottla.console.actions.encoded_parts import COLUMNS, EncodedPart, SchemaChoice, encoded_part, schema_options
from ottla.console.actions.produce_arguments import produce_arguments

MAX_HEADERS: Final = 100


class Header(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: Name
    value: str


class InTransaction(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The transaction of a record. It is ended as soon as the record is written."""

    id: Name
    is_committed: bool = True


class Produce(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write one record. A value of None is a tombstone. Without a partition the key selects it, as in Java's producer.

    With ``key_schema`` or ``value_schema`` the key or value is JSON, which is encoded by the schema. A page confirms the versions
    that the preview has shown, so that `run` uses them.
    """

    topic: Name
    value: str | None
    key: str | None = None
    key_schema: SchemaChoice | None = None
    value_schema: SchemaChoice | None = None
    headers: Annotated[list[Header], msgspec.Meta(max_length=MAX_HEADERS)] = []
    partition: Partition | None = None
    transaction: InTransaction | None = None

    def preview(self, to: ActionClients) -> Effects:
        self._check()
        warning = ""
        if self.transaction is not None:
            warning = f"the current producer of transactional id {self.transaction.id}, if there is one, is fenced"
        parts = self._encoded(to)
        used = {name: part.used for name, part in parts.items() if part.used is not None}
        command, problem = self._command(used.get("key_schema"), used.get("value_schema"), to)
        if problem:
            warning = "; ".join(filter(None, [warning, f"there is no equivalent command: {problem}"]))
        return Effects(
            command=command,
            warning=warning,
            columns=COLUMNS,
            rows=[part.row for part in parts.values() if part.row],
            confirmed=msgspec.to_builtins(used),
        )

    def run(self, to: ActionClients) -> Effects:
        self._check()
        parts = self._encoded(to)
        record = NewRecord(
            value=parts["value_schema"].data, key=parts["key_schema"].data, headers=self._headers(), partition=self.partition
        )
        of = self.transaction
        with transaction_of(to.brokers, None if of is None else of.id, commit=of is None or of.is_committed) as transaction:
            producer = TopicProducer(to.brokers, self.topic, producer=transaction)
            producer.send(record)
            producer.flush()
        return self._written(producer)

    def _encoded(self, to: ActionClients) -> dict[str, EncodedPart]:
        """Return the bytes of key and value by the parameter with their schema. Raises `ClientError`."""
        return {
            "key_schema": encoded_part("key", self.key, self.key_schema, to),
            "value_schema": encoded_part("value", self.value, self.value_schema, to),
        }

    def _headers(self) -> list[tuple[str, bytes | None]]:
        return [(header.name, header.value.encode()) for header in self.headers]

    def _written(self, producer: TopicProducer) -> Effects:
        index = next(partition for partition, count in producer.written.items() if count)
        # The offset is unknown if the response to the first attempt was lost.
        offset = producer.last_offsets.get(index)
        where = "" if offset is None else f" at offset {offset:,}"
        parameters: dict[str, object] = {"topic": self.topic, "partition": index}
        if offset is not None:
            parameters["from"] = offset
        outcome = ""
        if self.transaction is not None:
            outcome = f", in a transaction that was {'committed' if self.transaction.is_committed else 'aborted'}"
            parameters |= {} if self.transaction.is_committed else {"isolation": "aborted"}
        said = f"the record was written to {self.topic}:{index}{where}{outcome}"
        return Effects(said=said, page="messages", parameters=parameters)

    def _check(self) -> None:
        if self.value is None and self.key is None:
            raise ClientError("a tombstone needs the key of the records that it deletes; give a key")
        if self.transaction is not None and not self.transaction.id:
            raise ClientError("the transactional id is empty; give one")

    def _command(
        self, key_schema: SchemaChoice | None, value_schema: SchemaChoice | None, to: ActionClients
    ) -> tuple[list[str], str]:
        options = schema_options(key_schema, value_schema, to)
        if self.transaction is not None:
            options += option("--transactional-id", self.transaction.id)
            options += [] if self.transaction.is_committed else ["--abort"]
        key, value = (None if text is None else text.encode() for text in (self.key, self.value))
        return produce_arguments(self.topic, key, value, self._headers(), self.partition, options)


class DeleteRecords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delete the records before a position, in one partition or in all.

    ``offsets`` are the new log start offsets by partition that the preview has shown. `run` deletes up to these offsets, because
    the position ``before``, such as a time, may have another offset meanwhile. Without ``offsets``, `run` looks up the position.
    """

    topic: Name
    before: Place
    partition: Partition | None = None
    offsets: dict[Partition, Offset] | None = None

    def preview(self, to: ActionClients) -> Effects:
        planned = self._planned(to.brokers)
        count = sum(after - start for _, start, after, _ in planned)
        where = self.topic if self.partition is None else f"{self.topic}:{self.partition}"
        return Effects(
            command=["record", "delete", *option("--before", self.before.text()), *named(where)],
            warning=f"{up_to_records(count)} will be deleted; this cannot be undone",
            columns=["partition", "log start offset", "after", "end"],
            confirmed={"offsets": {index: after for index, _, after, _ in planned}},
            **shortened([list(row) for row in planned]),
        )

    def run(self, to: ActionClients) -> Effects:
        offsets = self.offsets
        if offsets is None:
            offsets = {index: after for index, _, after, _ in self._planned(to.brokers)}
        starts = delete_records(to.brokers, self.topic, offsets)
        said = f"records of {counted(len(starts), 'partition')} of {self.topic} were deleted"
        return Effects(said=said, page="topic", parameters={"name": self.topic})

    def _planned(self, brokers: BrokerConnections) -> list[tuple[int, int, int, int]]:
        """Return partition, log start offset, new log start offset and end of each partition in which records will be deleted.

        A position after the log end becomes the log end. Raises `ClientError` if there is nothing to delete.
        """
        indexes = brokers.partitions(self.topic) if self.partition is None else [self.partition]
        rows = planned_deletions(brokers, self.topic, indexes, self.before)
        planned = [(row.partition, row.start, min(row.before, row.end), row.end) for row in rows]
        planned = [row for row in planned if row[2] > row[1]]
        if not planned:
            raise ClientError("there is nothing to delete: every partition begins at this position or later")
        return planned
