"""Checks a broker's health over a socket. For a fast start the module imports no client."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from ottla.addresses import LOOPBACK, joined_address, split_address
from ottla.client.ready_line import NotReady, not_a_ready_file, read_ready_file

API_VERSIONS, DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM = 18, 35, 55
REQUEST_TIMED_OUT, NOT_CONTROLLER = 7, 41
MAX_ANSWER_BYTES = 1 << 20
AGAIN_S = 0.05
"""Pause, in seconds, between two attempts to reach a broker that is starting."""
SHORTEST_TIMEOUT_S = 0.05
CLIENT_ID = b"ottla-health"
"""With this client id, DescribeLogDirs of an ottla broker includes damaged logs and stray directories."""
STRAY = "stray directory "
"""Prefix of a line about stray directories (`operations.stray_reports.LINE_PREFIX`)."""
_CORRELATION_ID = 1

T = TypeVar("T")


def checked_place(ready_file: Path) -> str:
    """Return the path of the local socket of the broker that wrote the ready file, else the broker's ``host:port``. Raises
    `NotReady`."""
    local = read_ready_file(ready_file).get("local")
    return local if isinstance(local, str) else listening_address(ready_file)


def listening_address(ready_file: Path) -> str:
    """Return the ``host:port`` of the broker that wrote the ready file. Raises `NotReady`."""
    try:
        host, port = split_address(next(iter(read_ready_file(ready_file)["listening"].values())))
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        raise not_a_ready_file(ready_file) from None
    return joined_address((LOOPBACK.get(host, host), port))


class HealthChannel(Protocol):
    """A socket, or an authenticated connection with a socket's methods."""

    def sendall(self, data: bytes, /) -> object: ...

    def recv(self, size: int, /) -> bytes: ...


Connect = Callable[[str, float], AbstractContextManager[HealthChannel]]
"""Connects to ``host:port`` or a local socket, with a timeout in seconds. Raises OSError, or `NotReady` with a reason."""


def is_local(place: str) -> bool:
    """Whether an address is the path of a local socket, on which clients need no credentials."""
    return place.startswith("/")


@contextmanager
def plain(place: str, timeout_s: float) -> Iterator[socket.socket]:
    """Connect to ``host:port``, or to the path of a local socket. Raises OSError."""
    if is_local(place):
        opened = socket.socket(socket.AF_UNIX)
        opened.settimeout(timeout_s)
        opened.connect(place)
    else:
        opened = socket.create_connection(split_address(place), timeout_s)
        opened.settimeout(timeout_s)
    with opened:
        yield opened


def ask(bootstrap: str, timeout_s: float, connect: Connect = plain) -> list[str]:
    """Check that the broker at ``host:port`` or at a local socket responds, that its log directory is healthy (DescribeLogDirs),
    and that it reaches a controller (to which brokers forward DescribeQuorum). Raises `NotReady`.

    Returns a line for each stray directory. A controller's log directory is not checked.
    """
    try:
        with connect(bootstrap, timeout_s) as connection:
            offered = _offered_apis(connection)
            if not offered:
                raise NotReady(f"{bootstrap} answers, but not like a Kafka broker")
            failed, strays = _directories(connection) if DESCRIBE_LOG_DIRS in offered else ([], [])
            if not failed and DESCRIBE_QUORUM in offered and not _has_controller(connection):
                failed = ["it cannot reach the controller"]
    except (OSError, UnicodeError):
        raise NotReady(f"{bootstrap} does not answer") from None
    except (struct.error, IndexError):
        raise NotReady(f"{bootstrap} answers, but not like a Kafka broker") from None
    if failed:
        raise NotReady(f"{bootstrap} answers, but {'; '.join(failed)}; its log lines say what to do")
    return strays


def asked_again(ask_once: Callable[[float], T], timeout_s: float) -> T:
    """Call ``ask_once`` until it succeeds, because the broker may be starting. The argument of ``ask_once`` is the remaining time
    in seconds.

    After ``timeout_s`` the last `NotReady` is raised.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask_once(max(deadline - time.monotonic(), SHORTEST_TIMEOUT_S))
        except NotReady:
            if time.monotonic() + AGAIN_S >= deadline:
                raise
        time.sleep(AGAIN_S)


def answers(host: str, port: int, timeout_s: float) -> bool:
    """Whether a broker at this address responds to ApiVersions with error 0."""
    try:
        with plain(joined_address((host, port)), timeout_s) as connection:
            return bool(_offered_apis(connection))
    except (OSError, UnicodeError, struct.error):
        return False


def _offered_apis(connection: HealthChannel) -> set[int]:
    """Return the API keys in the ApiVersions response; an empty set if the response has an error code."""
    answer = _call(connection, API_VERSIONS, 0, b"")
    error_code, count = struct.unpack_from(">hi", answer)
    return set() if error_code else {struct.unpack_from(">hhh", answer, 6 + 6 * at)[0] for at in range(count)}


def _directories(connection: HealthChannel) -> tuple[list[str], list[str]]:
    """Return texts of the errors of the log directory and its logs, and the lines about stray directories.

    For the client id `CLIENT_ID` an ottla broker adds results with a text as path: one with an error for each offline or damaged
    log, and one without an error for each stray directory.
    """
    answer = _call(connection, DESCRIBE_LOG_DIRS, 1, struct.pack(">i", 0))
    _throttle_ms, count = struct.unpack_from(">ii", answer)
    at, failed, strays = 8, list[str](), list[str]()
    for _ in range(count):
        error_code, size = struct.unpack_from(">hh", answer, at)
        path = answer[at + 4 : at + 4 + size].decode(errors="replace")
        (topics,) = struct.unpack_from(">i", answer, at + 4 + size)
        at += 8 + size
        if error_code:
            failed.append(f"it cannot use {path} (error {error_code})" if path.startswith("/") else path)
        elif path.startswith(STRAY):
            strays.append(path)
        if topics:
            break
    return failed, strays


def _has_controller(connection: HealthChannel) -> bool:
    """Whether the metadata quorum has a leader. A broker that cannot reach the leader responds only after 30 s, so a timeout means
    no."""
    try:
        # DescribeQuorum for partition 0 of __cluster_metadata, with empty tagged fields in header, topic and partition.
        answer = _call(connection, DESCRIBE_QUORUM, 0, b"\0\2\x13__cluster_metadata\2\0\0\0\0\0\0\0")
    except TimeoutError:
        return False
    (error_code,) = struct.unpack_from(">h", answer, 1)
    return error_code not in (REQUEST_TIMED_OUT, NOT_CONTROLLER)


def _call(connection: HealthChannel, api_key: int, version: int, body: bytes) -> bytes:
    """Send a request and return the response without its correlation id. Raises OSError."""
    request = struct.pack(">hhih", api_key, version, _CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 4 <= size <= MAX_ANSWER_BYTES:
        raise ConnectionError(f"the response has an invalid size of {size} bytes")
    answer = _read(connection, size)
    if struct.unpack_from(">i", answer) != (_CORRELATION_ID,):
        raise ConnectionError("the response has the correlation id of another request")
    return answer[4:]


def _read(connection: HealthChannel, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("the server closed the connection")
        data += piece
    return data
