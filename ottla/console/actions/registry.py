"""Finds an action by its name, and carries it out or previews it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn

import msgspec

from ottla.client.errors import ClientError
from ottla.client.kafka_client import KafkaClient
from ottla.console.actions.action import Action, ActionClients, Effects, command_line, curl_line
from ottla.console.actions.configs import SetConfig
from ottla.console.actions.groups import DeleteGroup, DeleteOffsets, ResetGroup
from ottla.console.actions.records import DeleteRecords, Produce
from ottla.console.actions.schemas import DeleteSchemaVersion, DeleteSubject, RegisterSchema, SetCompatibility
from ottla.console.actions.topics import AddPartitions, CreateTopic, DeleteTopic, ElectLeaders
from ottla.console.actions.transactions import AbortTransaction
from ottla.control.command import CommandRefused

if TYPE_CHECKING:
    from ottla.client.schema_registry.registry_client import RegistryClient

ACTIONS: Final[Mapping[str, type[Action]]] = {
    "create-topic": CreateTopic,
    "add-partitions": AddPartitions,
    "delete-topic": DeleteTopic,
    "elect-leaders": ElectLeaders,
    "set-config": SetConfig,
    "produce": Produce,
    "delete-records": DeleteRecords,
    "reset-group": ResetGroup,
    "delete-offsets": DeleteOffsets,
    "delete-group": DeleteGroup,
    "abort-transaction": AbortTransaction,
    "register-schema": RegisterSchema,
    "delete-schema-version": DeleteSchemaVersion,
    "delete-subject": DeleteSubject,
    "set-compatibility": SetCompatibility,
}
MAX_AT_ONCE: Final = 4
"""Maximum number of actions and previews at the same time. Each occupies a connection of the control server."""
WAIT_S: Final = 5.0
"""Maximum time, in seconds, that an action waits for earlier actions."""

_TYPE: Final = re.compile("`([a-z |]+)`")
_TYPES: Final = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "null": "nothing",
    "array": "a list",
    "object": "an object",
}
"""Words for types in the errors of msgspec."""

_places: Final = threading.BoundedSemaphore(MAX_AT_ONCE)


def no_registry() -> NoReturn:
    """Replace the client of a registry in a console that has none."""
    raise ClientError("this console has no schema registry")


def carried_out(
    name: str,
    body: bytes,
    new_client: Callable[[], KafkaClient],
    of_cluster: Iterable[str],
    *,
    is_preview: bool,
    registry: Callable[[], RegistryClient] = no_registry,
) -> dict[str, Any]:
    """Carry out an action or preview it, and return its `Effects`. ``of_cluster`` has the connection options of the equivalent
    command. ``registry`` returns a client of the schema registry. Raises `CommandRefused`."""
    kind = ACTIONS.get(name)
    if kind is None:
        raise CommandRefused(404, f"unknown action {name!r}; the actions are {', '.join(ACTIONS)}")
    try:
        action = msgspec.json.decode(body, type=kind)
    except msgspec.DecodeError as error:
        raise CommandRefused(400, _in_words(name, error)) from None
    except UnicodeDecodeError as error:
        raise CommandRefused(400, f"{name}: the parameters are not UTF-8: {error.reason}") from None
    if not _places.acquire(timeout=WAIT_S):
        raise CommandRefused(409, f"{MAX_AT_ONCE} actions are already running; try again")
    try:
        with new_client() as client:
            to = ActionClients(brokers=client.brokers, registry=registry)
            effects = action.preview(to) if is_preview else action.run(to)
    except ClientError as error:
        raise CommandRefused(409, str(error)) from None
    finally:
        _places.release()
    return _document(effects, of_cluster)


def _in_words(name: str, error: msgspec.DecodeError) -> str:
    """Return the message of a decoding error without types of Python. It begins with the wrong parameter, or with the action."""
    message, _, path = str(error).partition(" - at `$.")
    words = _TYPE.sub(lambda found: " or ".join(_TYPES.get(one, one) for one in found[1].split(" | ")), message)
    if not words[:2].isupper():
        words = f"{words[:1].lower()}{words[1:]}"
    return f"{path.rstrip('`') or name}: {words}"


def _document(effects: Effects, of_cluster: Iterable[str]) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(effects)
    curl = document.pop("curl")
    command = command_line(effects.command, of_cluster) if effects.command else ""
    return {**document, "command": curl_line(curl) if curl else command}
