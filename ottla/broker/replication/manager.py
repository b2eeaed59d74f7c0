"""The partitions that this broker leads and follows, with their fetchers (kafka.server.ReplicaManager).

The metadata calls `ReplicaManager.lead`, `ReplicaManager.follow` or `ReplicaManager.stop` for each partition.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from ottla.broker.config.settings import Settings
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import NO_LEADER, Partition
from ottla.broker.peers.directory import FETCH, BrokerPeers
from ottla.broker.peers.peer import Peer
from ottla.broker.replication.fetcher import ReplicaFetcher
from ottla.broker.replication.follower_log import FollowerLogs
from ottla.broker.replication.in_sync_changes import Controller, InSyncChanges
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.replication.follower import FetchState, Following
from ottla.coordinator.replication.leader import LiveEpoch, new_leader
from ottla.protocol.steps import Pace, Steps, next_turn

SHRINK_WORK = 2
"""Estimated time per partition to find lagging followers, in units of 2 us."""

log = structlog.get_logger("replication")

Repeat = Callable[[str, Callable[[Settings], int], Callable[[], Steps[None] | None]], None]
"""Repeats a task at an interval (`Housekeeping.repeat`)."""


class ReplicaManager:
    def __init__(
        self,
        kernel: Kernel,
        peers: BrokerPeers,
        *,
        controller: Controller,
        broker_epoch: Callable[[], int],
        live_epoch: LiveEpoch,
        check_directory: Callable[[Partition, PartitionRegistration], None],
    ) -> None:
        """``broker_epoch`` returns the epoch of this broker's registration, ``live_epoch`` the epoch of any unfenced broker.

        ``check_directory`` is called after each registration change, and compares a replica's log directory with the metadata.
        """
        env = self._env = kernel.env
        self._live_config = kernel.config
        self._directory = kernel.directory
        self._barrier = kernel.barrier
        self._peers = peers
        self._own_epoch = broker_epoch
        self._live_epoch = live_epoch
        self._check_directory = check_directory
        self.broker_id = kernel.config.settings.node_id
        self._lag = RepeatedErrors(env, log)
        """Logs lagging brokers in one line for all partitions. The event ``in_sync_changed`` names each changed partition."""
        self._logs = FollowerLogs(env, kernel.directory, kernel.disk, kernel.barrier)
        self._in_sync_changes = InSyncChanges(
            env,
            controller,
            kernel.counters,
            broker_id=self.broker_id,
            broker_epoch=broker_epoch,
            changed=lambda partition: partition.advance(),
        )
        # Fetchers by leader id. A fetcher without partitions sends nothing.
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._followed: dict[Partition, ReplicaFetcher] = {}
        # The partitions that this broker leads and that have other replicas.
        self._led: dict[Partition, None] = {}
        # All partitions that were led or followed since they were opened.
        self._opened: dict[Partition, None] = {}

    @property
    def broker_epoch(self) -> int:
        return self._own_epoch()

    @property
    def settings(self) -> Settings:
        return self._live_config.settings

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Begin to lead a partition, or apply changed replicas or a changed in-sync set to a partition that is led already."""
        self._check_directory(partition, registration)
        if partition.is_led and partition.log.leader_epoch == registration.leader_epoch:
            partition.leader.assigned(registration.replicas)
            partition.leader.learned(frozenset(registration.isr), registration.partition_epoch)
            partition.advance()
        else:
            self._opens(partition, registration)
            self._stop_following(partition)
            self._lead_anew(partition, registration)
        if partition.leader.is_sole:
            self._led.pop(partition, None)
        else:
            self._led[partition] = None

    def _opens(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Find markers that may still be truncated, if the partition was just opened and has other replicas."""
        if partition not in self._opened:
            self._opened[partition] = None
            if registration.replicas != (self.broker_id,):
                self._logs.opened(partition)

    def _lead_anew(self, partition: Partition, registration: PartitionRegistration) -> None:
        settings = self.settings
        partition.lead(
            new_leader(
                broker_id=self.broker_id,
                leader_epoch=registration.leader_epoch,
                start_offset=partition.log.log_end_offset,
                replicas=registration.replicas,
                in_sync=registration.isr,
                partition_epoch=registration.partition_epoch,
                max_lag_ms=settings.replica_lag_time_max_ms,
                min_in_sync=partition.log.config.min_insync_replicas,
                live_epoch=self._live_epoch,
                now_ms=self._env.steady_ms(),
            ),
            lambda change: self._in_sync_changes.ask(partition, change),
        )

    def follow(self, partition: Partition, registration: PartitionRegistration) -> None:
        """Follow another broker. If the partition has no leader, wait until it has one."""
        self._check_directory(partition, registration)
        is_new = partition.is_led or partition.log.leader_epoch != registration.leader_epoch
        is_new = is_new or partition.leader_id != registration.leader
        if not is_new and (partition in self._followed or registration.leader == NO_LEADER):
            return
        self._opens(partition, registration)
        self._stop_leading(partition)
        self._stop_following(partition)
        partition.follow(registration.leader, registration.leader_epoch)
        if registration.leader not in (NO_LEADER, self.broker_id):
            fetcher = self._fetcher(registration.leader)
            self._followed[partition] = fetcher
            fetcher.add(partition, Following(leader_id=registration.leader, leader_epoch=registration.leader_epoch))

    def stop(self, partition: Partition) -> None:
        """Stop a replica that was removed from this broker, or whose topic was deleted."""
        self._stop_leading(partition)
        self._stop_following(partition)
        self._opened.pop(partition, None)
        partition.follow(NO_LEADER, partition.log.leader_epoch)

    def brokers_changed(self) -> None:
        """Retry connections after brokers have registered, changed their address, or were fenced."""
        self._peers.changed()
        for fetcher in list(self._fetchers.values()):
            fetcher.brokers_changed()

    def state_of(self, partition: Partition) -> FetchState | None:
        """The state of fetching a partition; None if it is not fetched."""
        fetcher = self._followed.get(partition)
        return None if fetcher is None else fetcher.state_of(partition)

    def _stop_leading(self, partition: Partition) -> None:
        self._led.pop(partition, None)
        self._in_sync_changes.forget(partition)

    def _stop_following(self, partition: Partition) -> None:
        fetcher = self._followed.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def _fetcher(self, leader_id: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:

            def peer() -> Peer | None:
                return self._peers.peer(leader_id, FETCH)

            def hang_up() -> None:
                self._peers.hang_up(leader_id, FETCH)

            fetcher = self._fetchers[leader_id] = ReplicaFetcher(self._env, self, peer, hang_up, self._logs, self._barrier)
        return fetcher

    def begin_housekeeping(self, repeat: Repeat) -> None:
        repeat("in_sync_shrink", lambda settings: max(1, settings.replica_lag_time_max_ms // 2), self.shrink)
        repeat(
            "high_watermarks",
            lambda settings: max(1, settings.replica_high_watermark_checkpoint_interval_ms),
            self.write_high_watermarks,
        )

    async def shrink(self) -> None:
        """Ask the controller to remove followers that lag for longer than ``replica.lag.time.max.ms`` from the in-sync sets."""
        pace = Pace()
        with self._lag.round(None):
            for partition in list(self._led):
                if partition in self._led and not partition.log.is_offline:
                    change = partition.leader.shrink(partition.log.log_end_offset, self._env.steady_ms())
                    if change is not None:
                        lagging = ", ".join(map(str, sorted(change.committed - change.proposed)))
                        self._lag.failed("replicas_lagged", f"brokers {lagging}", level="info", partition=repr(partition.log))
                        self._in_sync_changes.ask(partition, change)
                if pace.spend(SHRINK_WORK):
                    await next_turn()

    def write_high_watermarks(self) -> None:
        """Write the high watermark checkpoint. Raises OSError."""
        if self._led or self._followed:
            self._directory.write_high_watermarks()

    def close(self) -> None:
        """Stop fetching, and close the connections, but not the logs."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._in_sync_changes.close()
        self._peers.close()
