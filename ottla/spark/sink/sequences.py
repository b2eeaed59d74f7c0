"""The next sequence of each partition that the tasks of one transaction write to.

If a shuffle has brought all rows of a partition to one task, the task counts on its own (`OwnSequences`). Otherwise the tasks take
turns: the driver runs a `SequenceServer`, and a task takes a partition's next sequence, writes its batches, waits until they are in
the log, and returns the next sequence to the driver (`SharedSequences`). So only one task at a time writes to a partition, which is
all that a broker requires of a producer's sequences, and no row travels from one task to another.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Collection, Mapping
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, answer_challenge, deliver_challenge
from typing import Protocol

import msgspec

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.errors import TASK_FAILED, MustAbort, PipelineError

KEY_BYTES = 32
"""Length of the key with which tasks authenticate, in bytes: as long as the digest."""
HANDSHAKE_S = 30.0
"""Timeout, in seconds, for a task's proof of the key after it has connected to the driver."""
MAX_MESSAGE_BYTES = 16 << 20
"""Maximum size of a message, in bytes: the sequences of some 100,000 partitions."""
RETRY_S = 0.05
"""Pause after a failed accept, in seconds."""
BACKLOG = 1_000
"""Number of tasks that may wait to be connected."""


class Sequences(Protocol):
    """The next sequences of the partitions to which a `TaskWriter` writes."""

    @property
    def is_shared(self) -> bool:
        """Whether other tasks may write to the same partitions. If so, batches must be in the log before `give_back`."""

    def take(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the next sequences of at least one wanted partition. No other task gets this partition before `give_back`."""

    def give_back(self, sequences: Mapping[TopicPartition, int]) -> None:
        """Return the next sequences of all taken partitions, for other tasks."""

    def close(self) -> None: ...


class OwnSequences:
    """The sequences of partitions to which no other task writes."""

    is_shared = False

    def __init__(self) -> None:
        self._next: dict[TopicPartition, int] = {}

    def take(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return {where: self._next.get(where, 0) for where in wanted}

    def give_back(self, sequences: Mapping[TopicPartition, int]) -> None:
        self._next.update(sequences)

    def close(self) -> None: ...


class ServerAddress(msgspec.Struct, frozen=True):
    """The address of a `SequenceServer`, and the key that a task must send to it."""

    host: str
    port: int
    key: bytes


class _Request(msgspec.Struct):
    """A task's request for the next sequences of the ``wanted`` partitions, or to return the next sequences of its partitions."""

    wanted: list[TopicPartition] = []
    returned: list[tuple[TopicPartition, int]] = []


class _Reply(msgspec.Struct):
    """The sequences that a task has taken; ``is_lost`` after the failure of another task."""

    taken: list[tuple[TopicPartition, int]] = []
    is_lost: bool = False


class SharedSequences:
    """A task's connection to the `SequenceServer`. Raises `PipelineError`, and `MustAbort` if another task has failed."""

    is_shared = True

    def __init__(self, address: ServerAddress) -> None:
        try:
            self._connection = Client((address.host, address.port), authkey=address.key)
        except (EOFError, AuthenticationError, ConnectionResetError):
            raise MustAbort(TASK_FAILED) from None
        except OSError as error:
            raise PipelineError(
                f"the task cannot connect to the driver at {address.host}:{address.port} for its sequences ({error})"
            ) from None

    def take(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict(self._ask(_Request(wanted=sorted(wanted))).taken)

    def give_back(self, sequences: Mapping[TopicPartition, int]) -> None:
        self._ask(_Request(returned=sorted(sequences.items())))

    def close(self) -> None:
        self._connection.close()

    def _ask(self, request: _Request) -> _Reply:
        try:
            self._connection.send_bytes(msgspec.msgpack.encode(request))
            reply = msgspec.msgpack.decode(self._connection.recv_bytes(MAX_MESSAGE_BYTES), type=_Reply)
        except (EOFError, OSError):
            raise MustAbort(TASK_FAILED) from None
        if reply.is_lost:
            raise MustAbort(TASK_FAILED)
        return reply


class Turns:
    """Gives each partition of a transaction to one task at a time, with its next sequence. Tasks wait in threads."""

    def __init__(self) -> None:
        self._free = threading.Condition()
        self._next: dict[TopicPartition, int] = {}
        self._taken: set[TopicPartition] = set()
        self._is_lost = False

    def take(self, wanted: Collection[TopicPartition]) -> dict[TopicPartition, int] | None:
        """Wait until a wanted partition is free, and return the next sequences of all free wanted partitions. Returns None after
        `lose`."""
        with self._free:
            self._free.wait_for(lambda: self._is_lost or not self._taken.issuperset(wanted))
            if self._is_lost:
                return None
            granted = set(wanted) - self._taken
            self._taken |= granted
            return {where: self._next.get(where, 0) for where in granted}

    def give_back(self, sequences: Mapping[TopicPartition, int]) -> None:
        with self._free:
            self._next.update(sequences)
            self._taken -= sequences.keys()
            self._free.notify_all()

    def lose(self) -> None:
        """Make every `take` return None: a task that had a partition has failed, so the partition's next sequence is unknown."""
        with self._free:
            self._is_lost = True
            self._free.notify_all()


class SequenceServer:
    """Serves `Turns` in threads of the driver until the ``with`` block ends.

    Each task has a connection and a thread, and speaks the protocol of `multiprocessing.connection`, which begins with the proof of
    the key.
    """

    def __init__(self, host: str) -> None:
        """``host`` is the address on which the server listens, and at which tasks find it."""
        self._key = os.urandom(KEY_BYTES)
        self._listener = socket.create_server((host, 0), backlog=BACKLOG)
        self._turns = Turns()
        self._accepting = threading.Thread(target=self._accept, name="ottla-sequences", daemon=True)
        self._connected: set[socket.socket] = set()
        self._is_closed = False

    def __enter__(self) -> ServerAddress:
        self._accepting.start()
        host, port = self._listener.getsockname()[:2]
        return ServerAddress(host, port, self._key)

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        self._turns.lose()
        # A blocked accept() does not notice that its socket is closed, so end it by a shutdown.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()
        for client in list(self._connected):
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                # The process has too many open files.
                time.sleep(RETRY_S)
                continue
            self._connected.add(client)
            try:
                threading.Thread(target=self._serve, args=(client,), name="ottla-sequences-task", daemon=True).start()
            except RuntimeError:
                # No thread could be started. Close the connection, because the task would wait for ever.
                self._end(client)
                self._turns.lose()

    def _serve(self, client: socket.socket) -> None:
        """If the task disconnects while it has partitions, it may have written to them, so all other tasks must fail."""
        taken: dict[TopicPartition, int] = {}
        try:
            # Ignore broken connections, and clients without the key.
            with contextlib.suppress(OSError, EOFError, AuthenticationError), Connection(os.dup(client.fileno())) as connection:
                self._authenticate(client, connection)
                while True:
                    self._answer(connection, taken)
        finally:
            self._end(client)
            if taken:
                self._turns.lose()

    def _authenticate(self, client: socket.socket, connection: Connection) -> None:
        """Let task and driver prove to each other that they know the key, as `multiprocessing.connection.Listener` does."""
        self._limit(client, HANDSHAKE_S)
        deliver_challenge(connection, self._key)
        answer_challenge(connection, self._key)
        self._limit(client, 0)

    @staticmethod
    def _limit(client: socket.socket, seconds: float) -> None:
        """Set the timeout of reads; 0 disables it. It is a socket option, because the connection reads from a copy of the
        descriptor."""
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(seconds), 0))

    def _answer(self, connection: Connection, taken: dict[TopicPartition, int]) -> None:
        request = msgspec.msgpack.decode(connection.recv_bytes(MAX_MESSAGE_BYTES), type=_Request)
        returned = dict(request.returned)
        self._turns.give_back(returned)
        for where in returned:
            taken.pop(where, None)
        granted = self._turns.take(request.wanted) if request.wanted else {}
        taken |= granted or {}
        reply = _Reply(taken=sorted((granted or {}).items()), is_lost=granted is None)
        connection.send_bytes(msgspec.msgpack.encode(reply))

    def _end(self, client: socket.socket) -> None:
        self._connected.discard(client)
        client.close()
