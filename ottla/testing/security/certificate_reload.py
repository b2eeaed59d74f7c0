"""Makes a running broker load its key store again, by a dynamic config change (KIP-226)."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.addresses import split_address

if TYPE_CHECKING:
    from ottla.client.security.client_config import Connecting
    from ottla.client.wire.connection import BrokerConnection

TIMEOUT_S: Final = 30.0


def reload_key_store(bootstrap: str, connecting: Connecting, own: Path | None, name: str, location: Path) -> None:
    """Have the broker at ``bootstrap`` read the key store at ``location``, of which only the contents have changed.

    ``own`` is the PEM file with the certificate and key of the client, and ``name`` the config's name. Raises `ClientError`.
    """
    from ottla.client.errors import ClientError

    try:
        connection = _connection(bootstrap, connecting, own)
        try:
            # A broker reads a changed file when the same path is set again. Without the second change the path would stay in a
            # persistent data directory, where the next start would not find the file.
            _set_config(connection, name, str(location))
            _set_config(connection, name, None)
        finally:
            connection.close()
    except OSError as error:
        raise ClientError(f"cannot change the certificate of the broker at {bootstrap}: {error}") from None


def _connection(bootstrap: str, connecting: Connecting, own: Path | None) -> BrokerConnection:
    from ottla.client.wire.connection import BrokerConnection
    from ottla.client.wire.transport import SocketTransport, connected
    from ottla.control.faults.matching import HANDLE_CLIENT_ID

    address = split_address(bootstrap)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The broker is a process of this handle, and its present certificate may be expired or of another host.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if own is not None:
        context.load_cert_chain(own)
    raw = connected(address, TIMEOUT_S)
    try:
        secured = context.wrap_socket(raw, server_hostname=address[0])
    except BaseException:
        raw.close()
        raise
    transport = SocketTransport(address, TIMEOUT_S, opened=secured)
    try:
        return BrokerConnection(address, transport, HANDLE_CLIENT_ID, connecting=connecting)
    except BaseException:
        transport.close()
        raise


def _set_config(connection: BrokerConnection, name: str, value: str | None) -> None:
    """Set a config of the connected broker, or remove it if ``value`` is None."""
    from ottla.client.admin.topics import DELETE, SET, ConfigKind
    from ottla.client.errors import check
    from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
    from ottla.protocol.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    (broker,) = connection.call(DescribeClusterRequest()).brokers
    config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
    resource = AlterConfigsResource(resource_type=ConfigKind.BROKER, resource_name=str(broker.broker_id), configs=[config])
    result = connection.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0]
    check("changing the broker's certificate", result.error_code, result.error_message)
