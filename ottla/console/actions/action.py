"""The interface of an action, of the preview that the user confirms, and of the result."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol

import msgspec

from ottla.client.cluster import BrokerConnections
from ottla.protocol.topic_partition import MAX_PARTITION

if TYPE_CHECKING:
    from ottla.client.schema_registry.registry_client import RegistryClient

ROWS_SHOWN: Final = 200

Name = Annotated[str, msgspec.Meta(max_length=8_000)]
"""The name of a topic, group and so on. Requests limit a name to 32,767 bytes, and a character has up to four bytes."""
Offset = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Partition = Annotated[int, msgspec.Meta(ge=0, le=MAX_PARTITION)]


class Effects(msgspec.Struct, frozen=True, kw_only=True):
    """The table and the texts that a page shows before an action (the preview) or after it.

    ``command`` has the arguments of the equivalent ``ottla`` command, or ``curl`` those of the equivalent ``curl`` command.
    ``warning`` says what cannot be undone or has no effect, ``said`` what was done. ``page`` and ``parameters`` are the address of
    the page to show next, or to link to. ``confirmed`` are parameters of the action that a page adds when the user confirms the
    preview. They hold values that the preview has looked up, such as the offset of a time, so that the action does what the user
    has seen.
    """

    command: Sequence[str] = ()
    curl: Sequence[str] = ()
    warning: str = ""
    said: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    more_rows: int = 0
    page: str = ""
    parameters: dict[str, Any] = {}
    confirmed: dict[str, Any] = {}


class ActionClients(msgspec.Struct, frozen=True, kw_only=True):
    """The clients of an action. ``registry`` returns a client of the console's schema registry, and raises `ClientError` if the
    console has none."""

    brokers: BrokerConnections
    registry: Callable[[], RegistryClient]


class Action(Protocol):
    """A change of the cluster with its parameters. Implementations are structs that `registry` decodes from JSON."""

    def preview(self, to: ActionClients) -> Effects:
        """Return what `run` would do, without doing it. Raises `ClientError` if `run` would be refused for a known reason."""
        ...

    def run(self, to: ActionClients) -> Effects:
        """Carry out the action. Raises `ClientError`."""
        ...


def shortened(rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Return the fields ``rows`` and ``more_rows`` of `Effects`, with at most `ROWS_SHOWN` of the rows."""
    return {"rows": rows[:ROWS_SHOWN], "more_rows": max(0, len(rows) - ROWS_SHOWN)}


def named(name: str) -> list[str]:
    """Return the command arguments for a name. A name that begins with ``-`` follows ``--``."""
    return ["--", name] if name.startswith("-") else [name]


def option(name: str, value: object) -> list[str]:
    """Return the command arguments for an option; none if its value is None. A value that begins with ``-`` follows ``=``."""
    if value is None:
        return []
    return [f"{name}={value}"] if str(value).startswith("-") else [name, str(value)]


def curl_line(arguments: Iterable[str]) -> str:
    """Format the equivalent ``curl`` command for a shell."""
    return " ".join(map(_quoted, ["curl", *arguments]))


def command_line(arguments: Iterable[str], of_cluster: Iterable[str]) -> str:
    """Format the equivalent command for a shell. ``of_cluster`` has the connection options, which are inserted before ``--``."""
    arguments = list(arguments)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return " ".join(map(_quoted, ["ottla", *arguments[:at], *of_cluster, *arguments[at:]]))


def _quoted(text: str) -> str:
    """Quote an argument for bash. Bytes of an unprintable argument become escape sequences, which a terminal does not change."""
    if text.isprintable():
        return shlex.quote(text)
    data = text.encode("utf-8", "surrogateescape")
    return "$'" + "".join(chr(b) if 0x20 <= b < 0x7F and b not in b"'\\" else f"\\x{b:02x}" for b in data) + "'"
