"""One broker: everything it owns, how it starts and how it stops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import structlog
from msgspec import to_builtins

from broker.cluster import Cluster
from broker.config.definitions import ConfigError
from broker.config.settings import POWER, BrokerConfig
from broker.durability import GroupCommit, Waiter
from broker.env import Env, Listening
from broker.fetch_sessions import FetchSessions
from broker.groups import Groups
from broker.housekeeping import Housekeeping
from broker.metrics.counters import Counters
from broker.network.connection import Connection
from broker.network.listener import Connections, Endpoint, parse_endpoints
from broker.partitions import Partitions
from broker.recovery_audit import Lost, look
from broker.transactions import Transactions
from storage.checkpoints import topic_id_text
from storage.log_dir import DirectoryError, Identity, LogDirectory, read_identity, write_identity

if TYPE_CHECKING:
    from prometheus_client.core import Metric

TORN_TOLD = 100
"""Torn transactions that are logged one by one."""

log = structlog.get_logger("broker")


class Broker:
    """Owns all state; the event loop that runs it is the only one that touches it."""

    def __init__(self, env: Env, config: BrokerConfig, features: Mapping[str, int] | None = None) -> None:
        self.env = env
        self.config = config
        self.settings = config.settings
        self._features = dict(features or {})
        self._endpoints = self._client_endpoints()
        self._listening: list[tuple[Endpoint, Listening]] = []
        self._metrics: Listening | None = None
        self.is_stopping = False
        self.unexpected_errors = 0
        self.counters = Counters()
        self.startup_ms = 0.0
        # What the last crash has torn.
        self.torn: list[Lost] = []
        self.cluster_id = ""
        self._advertised: dict[str, tuple[str, int]] = {}
        self.connections = Connections(self.settings)
        self.directory = LogDirectory(env.fs, self.settings.log_dirs)
        # Only where answers must wait for the disk.
        self.commit = GroupCommit(env, self.disk_failed) if self.settings.ottla_durability == POWER else None
        self.partitions = Partitions(env, self.directory, self.commit)
        self.fetch_sessions = FetchSessions(
            self.settings.max_incremental_fetch_session_cache_slots,
            lambda: int.from_bytes(env.random_uuid()[:4], "big") & 0x7FFFFFFF,
        )

    def _client_endpoints(self) -> list[Endpoint]:
        """Listeners for clients; a controller's listener needs no socket here."""
        controllers = {name.upper() for name in self.settings.controller_listener_names or ()}
        endpoints = parse_endpoints(self.settings.listeners, "listeners")
        protocols = dict(p.upper().split(":", 1) for p in self.settings.listener_security_protocol_map.split(","))
        found = [e for e in endpoints if e.name not in controllers]
        if not found:
            raise ConfigError("listeners: none of them is for clients")
        for endpoint in found:
            security = protocols.get(endpoint.name)
            if security != "PLAINTEXT":
                raise ConfigError(f"listeners: {endpoint.name} is {security or 'unknown'}; only PLAINTEXT is served")
        return found

    # start

    async def start(self) -> None:
        """Load everything, then listen. Raises `DirectoryError`, `ConfigError` or OSError for what a person must mend."""
        self.directory.acquire()
        try:
            self._identify()
            started_ms = self.env.monotonic_ms()
            self.cluster = Cluster(self)
            self.groups = Groups(self)
            self.transactions = Transactions(self)
            self.cluster.load(self._features)
            self.groups.load()
            self.transactions.load()
            if not self.directory.was_clean:
                self._audit()
            self._resume()
            self.housekeeping = Housekeeping(self)
            for endpoint in self._endpoints:
                await self._listen(endpoint)
            if self.settings.ottla_metrics_port is not None:
                self._metrics = self.env.serve_metrics(
                    self.settings.ottla_metrics_host, self.settings.ottla_metrics_port, self._collect
                )
        except BaseException:
            self.directory.abandon()
            raise
        self.startup_ms = self.env.monotonic_ms() - started_ms
        self.housekeeping.start()
        for name in ("default.replication.factor", "offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
            if int(self.config.text(name) or 1) > 1:
                log.info("replication_factor_lowered", setting=name, given=self.config.text(name), used=1)
        log.info(
            "broker_started",
            bootstrap=self.bootstrap,
            data_dir=self.directory.path,
            clean=self.directory.was_clean,
            load_ms=round(self.startup_ms),
            metrics=self.metrics_url,
        )

    def _audit(self) -> None:
        self.torn = look(self)
        for lost in self.torn[:TORN_TOLD]:
            log.warning("transaction_torn", **to_builtins(lost))
        if len(self.torn) > TORN_TOLD:
            log.warning("transactions_torn", count=len(self.torn), hint="ottla audit names all")

    def _resume(self) -> None:
        """Carry out what was decided before; with ``durability=power`` once the decisions are on disk."""
        if self.commit is not None:
            for partition in self.partitions:
                if partition.log.segments and partition.log.recovery_point < partition.log.log_end_offset:
                    self.commit.wrote(partition.log)
        self.when_durable(lambda durable: self.transactions.resume() if durable else None)

    def when_durable(self, then: Waiter) -> None:
        """Call back when all that is written by now is as durable as was promised: at once, or when the disk has it."""
        if self.commit is None:
            then(True)
        else:
            self.commit.then(then)

    def disk_failed(self, error: BaseException) -> None:
        """A sync has failed: nobody knows what the disk has, so nothing more is taken and no later success told (fsyncgate)."""
        log.error("sync_failed", error=str(error))
        for storage in self.directory.logs.values():
            storage.is_failed = True

    def _identify(self) -> None:
        identity = read_identity(self.env.fs, self.directory.path)
        if identity is None:
            cluster_id, directory_id = (topic_id_text(self.env.random_uuid()) for _ in range(2))
            identity = Identity(cluster_id, self.settings.node_id, directory_id)
            write_identity(self.env.fs, self.directory.path, identity)
        elif identity.node_id != self.settings.node_id:
            raise DirectoryError(
                f"{self.directory.path} belongs to node {identity.node_id}, and node.id is {self.settings.node_id}"
            )
        self.cluster_id = identity.cluster_id

    async def _listen(self, endpoint: Endpoint) -> None:
        name = endpoint.name
        listening = await self.env.listen(endpoint.host, endpoint.port, lambda: Connection(self, name))
        self._listening.append((endpoint, listening))

    def reconfigure(self) -> None:
        """Dynamic configs were loaded or changed: live by them from here on."""
        self.config, refused = self.config.with_usable(self.cluster.dynamic_broker_configs)
        for reason in refused:
            log.error("dynamic_config_ignored", reason=reason)
        self.settings = self.config.settings
        self.connections.set_limits(self.settings)

    def _collect(self) -> list[Metric]:
        from broker.metrics.exposition import collect

        return collect(self)

    @property
    def metrics_url(self) -> str | None:
        """Where Prometheus finds the metrics, if they are served."""
        return None if self._metrics is None else f"http://{self.settings.ottla_metrics_host}:{self._metrics.port}/metrics"

    # addresses

    def advertised(self, listener: str) -> tuple[str, int]:
        """Host and port that clients of a listener are told."""
        known = self._advertised.get(listener)
        if known is None:
            known = self._advertised[listener] = self._resolve_advertised(listener)
        return known

    def _resolve_advertised(self, listener: str) -> tuple[str, int]:
        endpoint, listening = next((e, at) for e, at in self._listening if e.name == listener)
        for given in parse_endpoints(self.settings.advertised_listeners or (), "advertised.listeners"):
            if given.name == listener:
                return given.host or self.env.host_name(), given.port or listening.port
        host = self.env.host_name() if endpoint.host in ("", "0.0.0.0", "::") else endpoint.host
        return host, listening.port

    @property
    def bootstrap(self) -> str:
        host, port = self.advertised(self._endpoints[0].name)
        return f"{host}:{port}"

    # end

    async def stop(self) -> None:
        """Take no more requests, write everything down, mark the directory clean."""
        if self.is_stopping:
            return
        self.is_stopping = True
        self.housekeeping.stop()
        for _, listening in self._listening:
            listening.close()
        if self._metrics is not None:
            self._metrics.close()
        self.connections.close_all("the broker stops")
        self.directory.close()
        log.info("broker_stopped", unexpected_errors=self.unexpected_errors)
