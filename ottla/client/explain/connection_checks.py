"""Finds out why a client cannot connect, from the name of the first broker to the addresses that all brokers advertise.

The checks are in the order in which a client connects: name, TCP, protocol of the listener (TLS, SASL), the client's settings, API
versions, and then Metadata and each advertised listener. A failed check ends the examination, except that all advertised listeners
are checked.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from ottla.addresses import Address, joined_address
from ottla.client.cluster import BrokerConnections, BrokerNode, nodes_of
from ottla.client.errors import ClientError
from ottla.client.explain.reachability import LISTENER_REMEDY, is_ip, is_loopback, reach, reached
from ottla.client.finding import Finding
from ottla.client.security.client_config import Connecting
from ottla.client.security.listener_probe import ask_plainly, diagnosis, login_demand, speaks_tls
from ottla.client.security.tls import PROBE_TIMEOUT_S
from ottla.client.wording import counted
from ottla.protocol.messages.api_versions import API_KEY as API_VERSIONS
from ottla.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import API_KEY as FETCH
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.messages.produce import API_KEY as PRODUCE

MAX_BROKERS: Final = 50
"""Maximum number of brokers whose advertised listeners are tried."""
AT_ONCE: Final = 10
"""Number of brokers whose advertised listeners are tried at the same time."""
KAFKA_4_MIN_FETCH: Final = 4
"""The first version of Fetch that Kafka 4 supports (KIP-896). Clients before Kafka 2.1 may need older versions."""
KAFKA_2_1_FETCH: Final = 10
"""The newest version of Fetch in Kafka 2.1, the oldest broker that clients of Kafka 4 support."""


def examine(
    address: Address, connecting: Connecting, timeout_s: float, client_id: str, clusters: dict[str | None, str]
) -> Iterator[Finding]:
    """Yield findings until a check fails. Connections are opened and closed; nothing is written.

    ``clusters`` maps the cluster ids that were found at earlier addresses of a list to these addresses. The cluster id at
    ``address`` is added; if it is not the first id, a failure is reported.
    """
    host, where = address[0], joined_address(address)
    found = reach(address, timeout_s)
    problem = reached("TCP", where, address, found)
    if found.name_error and problem is not None:
        yield Finding(check="name", status="failed", text=problem.text, remedy=problem.remedy)
        return
    if not is_ip(host):
        yield Finding(check="name", status="ok", text=f"{host} is {', '.join([*found.accepting, *found.errors])}")
    yield problem or Finding(check="TCP", status="ok", text=f"{where} accepts connections")
    if not found.accepting:
        return
    listener = _listener(address, connecting)
    yield listener
    if listener.status == "failed":
        return
    brokers = BrokerConnections(where, timeout_s=timeout_s, client_id=client_id, connecting=connecting)
    try:
        metadata = brokers.metadata([])
        features = brokers.anyone().features
        everything = brokers.metadata(None)
    except (ClientError, OSError) as error:
        yield Finding(check="login", status="failed", text=_text(error), remedy="")
        return
    finally:
        brokers.close()
    yield Finding(check="login", status="ok", text=f"connected with security.protocol={connecting.protocol}")
    if features:
        levels = ", ".join(f"{name} {features[name]}" for name in ("metadata.version", "transaction.version") if name in features)
        yield Finding(check="features", status="ok", text=levels or counted(len(features), "feature"))
    yield from _brokers(address, metadata, connecting, timeout_s, client_id)
    clusters.setdefault(metadata.cluster_id, where)
    other_id, other_address = next(iter(clusters.items()))
    if other_id != metadata.cluster_id:
        text = f"{where} belongs to another cluster than {other_address}, which is in {other_id}"
        yield Finding(check="cluster", status="failed", text=text, remedy="give addresses of one cluster; clients use any")
    without = sum(partition.leader_id < 0 for topic in everything.topics for partition in topic.partitions)
    if without:
        text = f"{counted(without, 'partition')} of {counted(len(everything.topics), 'topic')} have no leader"
        yield Finding(check="leaders", status="warning", text=text, remedy="ottla cluster says why")


def _listener(address: Address, connecting: Connecting) -> Finding:
    where = joined_address(address)
    answer: ApiVersionsResponse | None = ask_plainly(address, API_VERSIONS, 0, ApiVersionsRequest())
    if answer is None and not speaks_tls(address):
        return Finding(check="protocol", status="failed", text=f"{where} {_stranger(address)}", remedy="check host and port")
    versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys} if answer is not None else {}
    if answer is not None and PRODUCE not in versions:
        text = f"{where} is the listener of a controller, which clients cannot use"
        return Finding(check="protocol", status="failed", text=text, remedy="give the port of a broker's listener (listeners)")
    # A listener that answers without TLS is not tried with TLS, because brokers log such attempts.
    mismatch = (diagnosis if answer is None or connecting.tls is not None else login_demand)(address, connecting)
    if mismatch is not None:
        what, _, remedy = mismatch.rpartition(": ")
        return Finding(check="protocol", status="failed", text=what or mismatch, remedy=remedy if what else "")
    oldest, newest = versions.get(FETCH, (KAFKA_4_MIN_FETCH, KAFKA_2_1_FETCH))
    text = f"Kafka {'without' if answer is not None else 'with'} TLS" + (f", {counted(len(versions), 'API')}" if versions else "")
    if newest < KAFKA_2_1_FETCH:
        remedy = "upgrade the brokers, or use clients of Kafka 3"
        return Finding(check="protocol", status="warning", text=f"{text}: too old for clients of Kafka 4 (KIP-896)", remedy=remedy)
    if oldest >= KAFKA_4_MIN_FETCH and versions:
        text += ", for clients of Kafka 2.1 and newer (KIP-896)"
    return Finding(check="protocol", status="ok", text=text)


def _stranger(address: Address) -> str:
    """Describe a server that is not Kafka: it speaks HTTP, closes the connection, or does not respond."""
    try:
        with socket.create_connection(address, PROBE_TIMEOUT_S) as raw:
            raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
            said = raw.recv(64)
    except TimeoutError:
        return "accepts connections, but answers neither Kafka's protocol nor TLS nor HTTP"
    except OSError:
        said = b""
    if said.startswith(b"HTTP/"):
        return "is an HTTP server, not Kafka"
    if said:
        return "is not Kafka"
    return "closes connections at once: it is not Kafka, or the port of a container in which no broker listens on all interfaces"


def _brokers(
    address: Address, metadata: MetadataResponse, connecting: Connecting, timeout_s: float, client_id: str
) -> Iterator[Finding]:
    nodes = [node for _, node in sorted(nodes_of(metadata).items())]
    yield Finding(
        check="cluster",
        status="ok" if nodes else "failed",
        text=f"{metadata.cluster_id}: {counted(len(nodes), 'broker')}",
        remedy="" if nodes else "no broker is registered yet; wait until the controller has accepted one",
    )
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(
            lambda node: _advertised(address, node, metadata.cluster_id, connecting, timeout_s, client_id), nodes[:MAX_BROKERS]
        )
    if len(nodes) > MAX_BROKERS:
        text = f"the advertised listeners of {len(nodes) - MAX_BROKERS} more brokers were not tried"
        yield Finding(check="cluster", status="warning", text=text, remedy="give the address of one of them")


def _advertised(
    given: Address, node: BrokerNode, cluster_id: str | None, connecting: Connecting, timeout_s: float, client_id: str
) -> Finding:
    """Connect to the listener that a broker advertises, which clients use after the first connection."""
    check, where = f"broker {node.node_id}", joined_address(node.address)
    what = f"it advertises {where}"
    found = reach(node.address, timeout_s)
    problem = reached(check, what, node.address, found)
    if problem is not None and problem.status == "failed":
        return Finding(check=check, status="failed", text=problem.text, remedy=_listener_remedy(given, node, found.name_error))
    brokers = BrokerConnections(where, timeout_s=timeout_s, client_id=client_id, connecting=connecting)
    try:
        other_id = brokers.metadata([]).cluster_id
    except (ClientError, OSError) as error:
        return Finding(check=check, status="failed", text=f"{what}: {_text(error)}", remedy=LISTENER_REMEDY)
    finally:
        brokers.close()
    if other_id != cluster_id:
        text = f"{what}, where a broker of another cluster answers ({other_id})"
        return Finding(check=check, status="failed", text=text, remedy=_listener_remedy(given, node, ""))
    if problem is not None:
        return problem
    if is_loopback(node.host) and not is_loopback(given[0]):
        text = f"{what}: clients on other machines connect to themselves"
        return Finding(check=check, status="warning", text=text, remedy=LISTENER_REMEDY)
    return Finding(check=check, status="ok", text=f"{what}, which answers")


def _listener_remedy(given: Address, node: BrokerNode, name_error: str) -> str:
    if not name_error and is_loopback(node.host) and is_loopback(given[0]) and node.port != given[1]:
        return (
            f"if the broker is in a container, its port {node.port} is published as {given[1]}: let a listener of its own"
            f" for the host advertise {joined_address(given)}"
        )
    return f"{LISTENER_REMEDY}; {joined_address(given)} is reachable from here"


def _text(error: ClientError | OSError) -> str:
    return str(error) if isinstance(error, ClientError) else (error.strerror or str(error))
