"""Descriptions of the requests, transactions and TLS handshakes that a fault hit.

Values are copied, because a request's buffer is reused.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ottla.broker.hooks.interception import IncomingRequest, Reached
from ottla.protocol.messages import APIS
from ottla.protocol.secrets import HIDDEN, SECRET_FIELDS, is_secret_config

ELEMENTS_SHOWN = 20
"""Maximum number of stored elements of each array of a request. Further elements are only counted."""
CHARACTERS_SHOWN = 200


class Hit(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One hit of a fault: on a transaction if ``point`` is set, on a TLS handshake if ``listener`` is set, otherwise on a
    request."""

    api: str = ""
    version: int = 0
    client_id: str = ""
    connection_id: int = 0
    request: dict[str, Any] = {}
    point: str = ""
    transactional_id: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    markers_written: int = 0
    listener: str = ""
    client_host: str = ""

    @property
    def what(self) -> str:
        """Describe the request, transaction or TLS handshake that was hit, for the log."""
        return self.point or (f"TLS handshake of {self.listener}" if self.listener else f"{self.api} {self.version}")


def of_request(incoming: IncomingRequest) -> Hit:
    return Hit(
        api=APIS[incoming.api_key].name,
        version=incoming.version,
        client_id=incoming.client_id[:CHARACTERS_SHOWN],
        connection_id=incoming.connection_id,
        request=_shown(incoming.request),
    )


def of_transaction(reached: Reached) -> Hit:
    return Hit(
        point=reached.point.value,
        transactional_id=reached.transactional_id,
        producer_id=reached.producer_id,
        producer_epoch=reached.producer_epoch,
        markers_written=reached.markers_written,
    )


def of_handshake(listener: str, peer: str) -> Hit:
    return Hit(listener=listener, client_host=peer)


def _shown(value: Any) -> Any:
    """Convert a field to a JSON value. 16 bytes are shown in hexadecimal, because they are a UUID; of other bytes, such as records,
    only the length is shown."""
    if isinstance(value, msgspec.Struct):
        shown_fields = {name: HIDDEN if name in SECRET_FIELDS else _shown(getattr(value, name)) for name in value.__struct_fields__}
        if is_secret_config(str(shown_fields.get("name", ""))) and shown_fields.get("value") is not None:
            shown_fields["value"] = HIDDEN
        return shown_fields
    if isinstance(value, list):
        shown = [_shown(one) for one in value[:ELEMENTS_SHOWN]]
        return shown if len(value) <= ELEMENTS_SHOWN else [*shown, f"and {len(value) - ELEMENTS_SHOWN:,} more"]
    if isinstance(value, str):
        return value if len(value) <= CHARACTERS_SHOWN else f"{value[:CHARACTERS_SHOWN]}..."
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex() if len(value) == 16 else f"{len(value):,} bytes"
    return value
