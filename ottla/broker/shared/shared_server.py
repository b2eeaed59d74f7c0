"""The parts of every server: the kernel, the connections, the listeners, and the metrics (kafka.server.SharedServer).

`BrokerServer` and `ControllerServer` each build their own parts on a `SharedServer`.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.settings import POWER, BrokerConfig
from ottla.broker.hooks.interception import Interception
from ottla.broker.hooks.transaction_history import TransactionListener
from ottla.broker.loop.descriptors import share_out
from ottla.broker.loop.env import Env
from ottla.broker.metrics.metrics_endpoint import MetricsEndpoint, ServedMetrics, ServeMetrics
from ottla.broker.network.addresses import Addresses
from ottla.broker.network.listener import Connections, Endpoint, ListenerLimits
from ottla.broker.partitions.kernel import make_kernel
from ottla.storage.identity import DirectoryError, DirectoryIdentity, identify


class Inherited(msgspec.Struct, kw_only=True):
    """The parts of a replaced broker that its successor inherits, so that clients see the same cluster."""

    first_producer_id: int
    """The first producer id of the new broker. Producers of the replaced broker may still run, so their ids are not used again."""
    lock: object | None
    """The lock of the data directory. The process keeps the lock during the replacement, so no other process can get it."""
    addresses: Addresses
    """The open listeners. A client that connects before the new broker serves waits in the operating system's queue."""
    metrics: ServedMetrics | None


GiveUp = Callable[[DirectoryError], None]
"""Called by a server that cannot continue and must be stopped and started again."""


class Host(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The options that a process passes to its server. ``interception`` may change the handling of requests.

    ``serve_metrics`` is called if ``ottla.metrics.port`` is set; without it no metrics are served.
    """

    interception: Interception | None = None
    transaction_listener: TransactionListener | None = None
    serve_metrics: ServeMetrics | None = None
    inherited: Inherited | None = None
    give_up: GiveUp = lambda error: None


NO_HOST = Host()


class SharedServer:
    """Owns the directory, the connections and the listeners. ``endpoints``: the listeners to open; None for the client listeners.

    ``sync_refused`` is called with the path of a file that could not be opened for its sync, ``on_closed`` with the id of a closed
    connection.
    """

    def __init__(
        self,
        env: Env,
        config: BrokerConfig,
        host: Host,
        *,
        sync_refused: Callable[[str, OSError], None],
        on_closed: Callable[[int], None] = lambda connection_id: None,
        endpoints: list[Endpoint] | None = None,
    ) -> None:
        settings, inherited = config.settings, host.inherited
        self.addresses = Addresses(env, settings, endpoints) if inherited is None else inherited.addresses
        self.metrics = MetricsEndpoint(settings, host.serve_metrics, None if inherited is None else inherited.metrics)
        self.descriptors = share_out(env.open_file_limit(), settings.ottla_max_open_files)
        env.fs.max_open_files = self.descriptors.files
        self.connections = Connections(env, settings, self.descriptors.connections, on_closed)
        self.kernel = make_kernel(
            env,
            LiveConfig(config, self.connections.set_limits),
            sync_refused,
            lock=None if inherited is None else inherited.lock,
            interception=host.interception,
            listener=host.transaction_listener,
        )
        self.connections.of_listeners = ListenerLimits(env, config, self.addresses.names, self.addresses.protected)
        self.kernel.config.parts.append(self.connections.of_listeners)

    def identify(self, cluster_id: str | None = None) -> DirectoryIdentity:
        """Read cluster id, node id and directory id of the locked directory. A new directory gets new ids, or the given
        ``cluster_id``."""
        env, settings, path = self.kernel.env, self.kernel.config.settings, self.kernel.directory.path
        is_synced = settings.ottla_durability == POWER
        return identify(env.fs, path, settings.node_id, env.random_uuid, cluster_id, is_synced=is_synced)[0]

    def end_work(self, server: str) -> None:
        """End all work and close all connections before the directory is closed."""
        kernel = self.kernel
        kernel.lifecycle.is_stopping = True
        kernel.stepping.stop()
        kernel.barrier.stop()
        # Wait for work in another thread, which may be writing a checkpoint.
        kernel.env.finish_aside()
        self.connections.close_all(f"{server} is stopping")
        kernel.disk.close()

    def close_listeners(self) -> None:
        self.addresses.close()
        self.metrics.close()
