"""The commands that end connections and SASL sessions of clients, selected by user and client id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ottla.broker.network.listener import Accepted
from ottla.control.command import Command, CommandRefused, ControlledBroker
from ottla.control.faults.matching import OWN_CLIENT_IDS, is_like

CLOSED = "the control API has ended the connection"
"""The reason in the log event of each closed connection."""


class ClientParameters(msgspec.Struct, forbid_unknown_fields=True):
    """Selects clients by user, client id or both. Names are exact, or patterns with ``*``, ``?`` and ``[...]``."""

    user: str | None = None
    """The name of the principal: ``alice`` for ``User:alice``."""
    client_id: str | None = None


def _selected(controlled: ControlledBroker, clients: ClientParameters) -> Iterator[Accepted]:
    """Yield the connections of the selected clients. As with faults, ottla's own clients, such as the console, are selected only by
    their exact client id."""
    if clients.user is None and clients.client_id is None:
        raise CommandRefused(400, 'give user, client_id or both, as in {"user": "alice"}; * selects every user')
    for connection in controlled.serving.broker.connections.all():
        dispatcher = connection.dispatcher
        ids = dispatcher.client_ids
        if (
            is_like(dispatcher.principal.name, clients.user)
            and (clients.client_id is None or any(is_like(client_id, clients.client_id) for client_id in ids))
            and (clients.client_id in OWN_CLIENT_IDS or not ids & OWN_CLIENT_IDS)
        ):
            yield connection


async def _close(controlled: ControlledBroker, clients: ClientParameters) -> Any:
    closed = list(_selected(controlled, clients))
    for connection in closed:
        connection.close(CLOSED)
    return {"connections": len(closed)}


async def _expire(controlled: ControlledBroker, clients: ClientParameters) -> Any:
    return {"sessions": sum(connection.dispatcher.end_session() for connection in _selected(controlled, clients))}


CLIENT_COMMANDS = (
    Command(method="POST", path="/v1/connections/close", run=_close, parameters=ClientParameters),
    Command(method="POST", path="/v1/sessions/expire", run=_expire, parameters=ClientParameters),
)
