"""Plans the processes of a cluster: their ids, directories, ports and settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security_protocols import SecurityProtocol, protocol_of
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.network.listener import Endpoint, client_endpoints, parse_endpoints
from ottla.storage.checkpoints import RECOVERY_POINTS, write_offsets
from ottla.storage.filesystem import Filesystem, described
from ottla.storage.growth import check_not_growing
from ottla.storage.identity import CONTROLLER_DIRECTORY, META_FILE, DirectoryError, identify

CONTROLLER_ID = 3000
"""The node id of the controller. As in Kafka's examples, it is far above the brokers' ids."""
MAX_BROKERS = 20
CONTROLLER_NAME = CONTROLLER_DIRECTORY
CONTROLLER_LISTENER = "CONTROLLER"
CLIENT_LISTENER = "PLAINTEXT"
"""Name of the listener for other brokers, and for clients unless a secured listener is configured."""
LOCALHOST = "127.0.0.1"

_OF_EACH_NODE = (
    "process.roles",
    "node.id",
    "broker.id",
    "controller.listener.names",
    "controller.quorum.voters",
    "controller.quorum.bootstrap.servers",
)
"""Settings that cannot be the same for all processes of a cluster."""
_BETWEEN_BROKERS = ("inter.broker.listener.name", "security.inter.broker.protocol")
"""Settings that select the listener for other brokers: the plain listener or the listener for clients."""
_PORTS_OF_BROKERS = ("ottla.metrics.port", "ottla.control.port")
"""Settings with the port of the first broker. Further brokers use the following ports."""
_REGISTRY_PORT = "ottla.schema.registry.port"
"""Only the first broker has a schema registry, because two registries would give one id to two schemas."""
_METRICS_PORT = "ottla.metrics.port"
"""The controller serves metrics on the port after the brokers' metrics ports."""


@dataclass(slots=True, frozen=True)
class PlannedNode:
    name: str
    """The node's name in messages, and the name of its directory: ``controller``, ``broker-1``."""
    node_id: int
    directory: str
    config: BrokerConfig

    @property
    def is_controller(self) -> bool:
        return self.node_id == CONTROLLER_ID


LARGEST_PORT = 65_535


def plan(
    config: BrokerConfig, broker_count: int, port_of: Callable[[str, str], int], controller_port: int = 0
) -> list[PlannedNode]:
    """Plan the controller and then the brokers, whose ids are 1, 2, 3 and so on. Raises `ConfigError`.

    The ports of listeners, advertised listeners and `_PORTS_OF_BROKERS` in the settings are the first broker's; further brokers get
    the following ports. For port 0, ``port_of`` chooses a port by the node's name and host. If the listener for clients is secured,
    the brokers also have a plain listener on 127.0.0.1 for each other, on any free port. There is no plain listener if
    ``inter.broker.listener.name`` or ``security.inter.broker.protocol`` names the listener for clients.
    """
    _check_count(config, broker_count)
    client = _endpoint(config.settings.listeners, "listeners")
    between_name = _between_brokers(config, client)
    _check_super_users(config, between_name)
    client_endpoints(config.settings)
    given = config.settings.advertised_listeners
    advertised = None if given is None else _endpoint(given, "advertised.listeners")
    between = [] if client.name == between_name else [f"{CLIENT_LISTENER}://{LOCALHOST}:0"]
    shared = {**defaults(broker_count), **config.given}
    first_ports = {name: int(shared.pop(name)) for name in _PORTS_OF_BROKERS if name in shared}
    registry_port = shared.pop(_REGISTRY_PORT, None)
    advertised_port = 0 if advertised is None else advertised.port
    _check_ports(broker_count, client.port, advertised_port, first_ports, controller_port)
    controller_port = controller_port or port_of(CONTROLLER_NAME, LOCALHOST)
    for name in ("advertised.listeners", *_BETWEEN_BROKERS):
        shared.pop(name, None)
    shared["controller.listener.names"] = CONTROLLER_LISTENER
    shared["controller.quorum.voters"] = f"{CONTROLLER_ID}@{LOCALHOST}:{controller_port}"

    def node(name: str, node_id: int, role: str, listener: str, **further: str) -> PlannedNode:
        directory = f"{config.settings.log_dirs}/{name}"
        own = {"process.roles": role, "node.id": str(node_id), "listeners": listener, "log.dirs": directory, **further}
        return PlannedNode(name, node_id, directory, BrokerConfig({**shared, **own}))

    racks = _racks(shared.pop("broker.rack", None), broker_count)
    own = {_METRICS_PORT: _port_after(first_ports[_METRICS_PORT], broker_count)} if _METRICS_PORT in first_ports else {}
    listener = f"{CONTROLLER_LISTENER}://{LOCALHOST}:{controller_port}"
    nodes = [node(CONTROLLER_NAME, CONTROLLER_ID, "controller", listener, **own)]
    shared["inter.broker.listener.name"] = between_name
    for broker_id in range(1, broker_count + 1):
        port = client.port + broker_id - 1 if client.port else port_of(f"broker-{broker_id}", client.host or LOCALHOST)
        own = {name: _port_after(first, broker_id - 1) for name, first in first_ports.items()}
        if registry_port is not None and broker_id == 1:
            own[_REGISTRY_PORT] = registry_port
        if racks is not None:
            own["broker.rack"] = racks[broker_id - 1]
        if advertised is not None:
            shown_port = advertised_port + broker_id - 1 if advertised_port else port
            own["advertised.listeners"] = ",".join([_text(client.name, advertised.host, shown_port), *between])
        listeners = ",".join([_text(client.name, client.host, port), *between])
        nodes.append(node(f"broker-{broker_id}", broker_id, "broker", listeners, **own))
    return nodes


def _check_count(config: BrokerConfig, broker_count: int) -> None:
    if not 1 <= broker_count <= MAX_BROKERS:
        raise ConfigError(f"--brokers {broker_count}: give a number from 1 to {MAX_BROKERS}")
    for name in _OF_EACH_NODE:
        if name in config.given:
            raise ConfigError(f"{name}: --brokers gives each process a value of its own; leave this setting out")


def _check_ports(
    broker_count: int, client_port: int, advertised_port: int, first_ports: dict[str, int], controller_port: int
) -> None:
    for port in (client_port, advertised_port, *first_ports.values()):
        if port + broker_count - (port != first_ports.get(_METRICS_PORT)) > LARGEST_PORT:
            raise ConfigError(f"--brokers {broker_count}: there are not enough ports from {port} on; give a lower port, or 0")
    if controller_port and client_port <= controller_port < client_port + broker_count:
        raise ConfigError(f"--controller-port {controller_port}: a broker uses this port; give another one")


def _between_brokers(config: BrokerConfig, client: Endpoint) -> str:
    """Return the name of the listener by which brokers connect to each other. Raises `ConfigError`."""
    for key in _BETWEEN_BROKERS:
        name = config.given.get(key, CLIENT_LISTENER).upper()
        if name not in (CLIENT_LISTENER, client.name):
            raise ConfigError(f"{key}: {name} is not the listener of the brokers, which is {client.name}")
        if name != CLIENT_LISTENER:
            return name
    return CLIENT_LISTENER


def _check_super_users(config: BrokerConfig, between: str) -> None:
    """Raise `ConfigError` if an authorizer would deny nodes that connect without authentication."""
    protocols = config.settings.listener_security_protocol_map
    plain = [name for name in (between, CONTROLLER_LISTENER) if protocol_of(protocols, name) is SecurityProtocol.PLAINTEXT]
    if plain and config.settings.authorizer_class_name and "User:ANONYMOUS" not in config.settings.super_users.split(";"):
        raise ConfigError(
            f"super.users: with --brokers and an authorizer add User:ANONYMOUS, the principal of the nodes at {plain[0]}"
        )


def _port_after(first: int, count: int) -> str:
    return str(first + count if first else 0)


def _racks(given: str | None, broker_count: int) -> list[str] | None:
    if given is None:
        return None
    racks = [rack.strip() for rack in given.split(",")]
    if len(racks) not in (1, broker_count):
        raise ConfigError(
            f"broker.rack={given}: give one rack, or one rack for each of the {broker_count} brokers, separated by commas"
        )
    return racks * broker_count if len(racks) == 1 else racks


def _text(name: str, host: str, port: int) -> str:
    return f"{name}://{Endpoint(name, host, port)}"


def _endpoint(texts: tuple[str, ...], key: str) -> Endpoint:
    endpoints = parse_endpoints(texts, key)
    if len(endpoints) != 1:
        raise ConfigError(f"{key}: with --brokers give one listener, {CLIENT_LISTENER}://HOST:PORT of the first broker")
    return endpoints[0]


def defaults(broker_count: int) -> dict[str, str]:
    """Return Kafka's defaults for the replication of internal topics, limited by the number of brokers.

    Timeouts of broker sessions are shorter than Kafka's, because all nodes are on one machine and tests wait for these timeouts.
    """
    factor, in_sync = str(min(3, broker_count)), str(min(2, broker_count))
    return {
        "broker.heartbeat.interval.ms": "500",
        "broker.session.timeout.ms": "3000",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def format_directory(fs: Filesystem, path: str, node_id: int, new_uuid: Callable[[], bytes], cluster_id: str | None) -> str:
    """Format a directory for a node, in a new cluster if ``cluster_id`` is None. Returns the cluster's id.

    Raises OSError, and `DirectoryError` for a directory of another cluster or node.
    """
    fs.make_dir(path)
    identity, is_new = identify(fs, path, node_id, new_uuid, cluster_id)
    if is_new:
        # A broker that starts without a recovery-point checkpoint assumes that the checkpoint was lost, so a new directory gets an
        # empty checkpoint.
        write_offsets(fs, f"{path}/{RECOVERY_POINTS}", {})
    if cluster_id not in (None, identity.cluster_id):
        raise DirectoryError(
            f"{path} belongs to cluster {identity.cluster_id}, the others to {cluster_id}; give directories of one cluster"
        )
    return identity.cluster_id


def prepare(fs: Filesystem, data_dir: str, nodes: list[PlannedNode], new_uuid: Callable[[], bytes]) -> str:
    """Format each node's directory for the same cluster, as kafka-storage does, and return the cluster's id.

    Raises `DirectoryError` if a directory belongs to another cluster or cannot be used.
    """
    try:
        check_not_growing(fs, data_dir)
        if fs.read_file(f"{data_dir}/{META_FILE}") is not None:
            raise DirectoryError(
                f"{data_dir} has the data of a single broker; give another --data-dir for the cluster, or convert this one"
                f" with ottla cluster grow --data-dir {data_dir} --brokers {len(nodes) - 1}"
            )
        cluster_id: str | None = None
        for node in nodes:
            cluster_id = format_directory(fs, node.directory, node.node_id, new_uuid, cluster_id)
    except OSError as error:
        raise DirectoryError(f"cannot use {data_dir}: {described(error)}") from error
    assert cluster_id is not None
    return cluster_id
