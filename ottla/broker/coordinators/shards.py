"""The shards of a coordinator: one for each partition of its topic that this broker leads (CoordinatorRuntime).

A broker that becomes leader of a partition reads its log in steps; meanwhile clients get COORDINATOR_LOAD_IN_PROGRESS. A broker
that loses the leadership drops the whole shard, because its last records may be lost, and the next leader may have newer ones.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

import msgspec
import structlog

from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partition, Partitions
from ottla.broker.partitions.runtime import Replaying, Runtime, coordinator_partition
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC

LOAD_TIMES_KEPT = 1_000

log = structlog.get_logger("coordinator")


class Numbered(Protocol):
    """A shard, with the number of its partition."""

    partition: int


S = TypeVar("S", bound=Numbered)


class Opening(msgspec.Struct, Generic[S], frozen=True, kw_only=True):
    """A new shard, its runtime, and the options for replaying its log."""

    shard: S
    runtime: Runtime
    replaying: Replaying


class Shards(Generic[S]):
    """Loads, finds and drops the shards of partitions. ``open`` makes a shard without state for a leader epoch.

    ``loaded`` is called with each shard that was loaded while the broker serves clients. ``dropped`` is called with each shard that
    goes out of service, before its parked requests are dropped. A shard of the transaction coordinator is loaded again if its
    broker is re-elected.
    """

    def __init__(
        self,
        topic: str,
        kernel: Kernel,
        partitions: Partitions,
        cluster_state: ClusterState,
        *,
        open: Callable[[Partition, int], Opening[S]],
        loaded: Callable[[S], None] = lambda shard: None,
        dropped: Callable[[S, Runtime], None] = lambda shard, runtime: None,
    ) -> None:
        self._topic = topic
        self._clock = kernel.env
        self._lifecycle = kernel.lifecycle
        self._stepping = kernel.stepping
        self._partitions = partitions
        self._cluster_state = cluster_state
        self._open = open
        self._loaded = loaded
        self._dropped = dropped
        # A re-elected transaction coordinator needs the new epoch: other brokers may refuse requests with the previous epoch.
        self._is_renewed_by_epoch = topic == TRANSACTION_TOPIC
        self._serving: dict[int, tuple[S, Runtime]] = {}
        self._loading: dict[int, Runtime] = {}
        # By partition, the leader epoch for which its shard was opened.
        self._epochs: dict[int, int] = {}
        self.load_ms: list[float] = []
        """Durations in ms of the latest `LOAD_TIMES_KEPT` loads of shards."""

    def _load_now(self, partition: Partition) -> tuple[S, Runtime]:
        index = partition.log.partition
        opening, began_ms = self._open(partition, partition.log.leader_epoch), self._clock.monotonic_ms()
        opening.runtime.load(opening.replaying)
        self._epochs[index] = partition.log.leader_epoch
        return self._serve(index, opening, began_ms)

    def _serve(self, index: int, opening: Opening[S], began_ms: float) -> tuple[S, Runtime]:
        self.load_ms.append(self._clock.monotonic_ms() - began_ms)
        del self.load_ms[:-LOAD_TIMES_KEPT]
        served = self._serving[index] = (opening.shard, opening.runtime)
        return served

    # leader elections

    def elected(self, index: int, leader_epoch: int) -> None:
        """Load the shard of a partition that this broker now leads. The leader epoch is also the coordinator epoch.

        While the broker starts, the shard is loaded within this call. Implements `metadata_listener.Coordinator`.
        """
        known_epoch = self._epochs.get(index)
        if known_epoch is not None and (known_epoch == leader_epoch or not self._is_renewed_by_epoch):
            self._epochs[index] = leader_epoch
            return
        self.resigned(index)
        try:
            partition = coordinator_partition(self._partitions, self._topic, index)
        except KafkaError as error:
            log.warning("coordinator_not_loaded", topic=self._topic, partition=index, reason=str(error))
            return
        if partition.log.log_end_offset == partition.log.log_start_offset:
            # Most partitions of a new topic are never used, so a shard without records is only opened at its first use.
            return
        if not self._lifecycle.is_serving:
            # If loading takes the log offline, the error is already logged, and requests for the shard are refused.
            with suppress(KafkaError):
                self._load_now(partition)
            return
        opening, began_ms = self._open(partition, leader_epoch), self._clock.monotonic_ms()
        runtime = self._loading[index] = opening.runtime
        self._epochs[index] = leader_epoch

        def replayed(count: int) -> None:
            if self._loading.get(index) is runtime:
                del self._loading[index]
                self._serve(index, opening, began_ms)
                log.info("coordinator_loaded", topic=self._topic, partition=index, leader_epoch=leader_epoch, records=count)
                self._loaded(opening.shard)

        def failed(error: Exception) -> None:
            if self._loading.get(index) is runtime:
                # Loading failed. The next request for the shard loads it again.
                del self._loading[index], self._epochs[index]
            if not isinstance(error, KafkaError):
                raise error

        self._stepping.run(runtime.load_in_steps(opening.replaying), replayed, failed)

    def resigned(self, index: int) -> None:
        """Drop the shard of a partition that this broker no longer leads. Pending requests get NOT_COORDINATOR."""
        self._epochs.pop(index, None)
        loading = self._loading.pop(index, None)
        if loading is not None:
            loading.close()
        served = self._serving.pop(index, None)
        if served is not None:
            shard, runtime = served
            self._dropped(shard, runtime)
            runtime.close()
            log.info("coordinator_unloaded", topic=self._topic, partition=index)

    def topic_deleted(self) -> None:
        """Drop all shards, because the coordinator's topic was deleted."""
        for index in (*self._serving, *self._loading):
            self.resigned(index)

    # finding shards

    def partition_count(self, refusal: str | None = None) -> int:
        """The number of partitions of the coordinator's topic.

        Raises NOT_COORDINATOR while the topic does not exist. As in Kafka, FindCoordinator creates the topic.
        """
        topic = self._cluster_state.topics.get(self._topic)
        if topic is None:
            raise KafkaError(Code.NOT_COORDINATOR, refusal)
        return topic.partition_count

    def get(self, index: int) -> tuple[S, Runtime]:
        """Return the shard of a partition, and its runtime.

        Raises COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR if another broker leads the partition.
        """
        served = self._serving.get(index)
        if served is not None:
            if not served[1].partition.log.is_offline:
                partition = served[1].partition
                if partition.barrier.is_replicated:
                    partition.barrier.depend_on(partition)
                return served
            # No record could be written to the offline log, so the shard must not be used.
            self.resigned(index)
        elif index in self._loading:
            raise KafkaError(Code.COORDINATOR_LOAD_IN_PROGRESS)
        partition = coordinator_partition(self._partitions, self._topic, index)
        opened = self._load_now(partition)
        self._loaded(opened[0])
        if partition.barrier.is_replicated:
            partition.barrier.depend_on(partition)
        return opened

    def runtime_of(self, shard: S) -> Runtime | None:
        """The runtime of a shard; None if its log is offline or it was dropped, which may happen during each wait."""
        served = self._serving.get(shard.partition)
        if served is None or served[0] is not shard or served[1].partition.log.is_offline:
            return None
        return served[1]

    def serves(self, shard: S) -> bool:
        """Whether a shard is still in service. Work in steps must check this after each step."""
        served = self._serving.get(shard.partition)
        return served is not None and served[0] is shard

    def items(self) -> list[tuple[S, Runtime]]:
        """The shards in service, with their runtimes."""
        return list(self._serving.values())

    def shards(self) -> list[S]:
        return [shard for shard, _ in self._serving.values()]

    @property
    def is_loading(self) -> bool:
        """Whether any shard is being loaded. If so, a list of all shards would be incomplete."""
        return bool(self._loading)

    def drop_offline(self) -> None:
        """Drop the shards whose log is offline, because no record can be written for them."""
        for index in [i for i, (_, runtime) in self._serving.items() if runtime.partition.log.is_offline]:
            self.resigned(index)


def batch_bytes(runtime: Runtime) -> int:
    """Size limit in bytes of a batch of many records, such as tombstones: half of max.message.bytes."""
    return runtime.partition.log.config.max_message_bytes // 2
