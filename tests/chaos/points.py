"""The points at which a fault can be triggered in the broker under test, and the kinds of faults.

A kill preserves exactly the data written before it, so every write is a point: before, in the middle of, or after the write. A
write gets its name from the written bytes, so the names do not depend on the structure of the broker's code.
"""

from __future__ import annotations

import ctypes
import json
import signal
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from ottla.broker.metadata.cluster import METADATA_TOPIC
from ottla.coordinator.result import LogRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, from_record
from ottla.coordinator.transaction.states import COMPLETED, PREPARED
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.markers import read_marker
from ottla.protocol.records import HEADER_BYTES, read_header, read_records
from ottla.protocol.transaction_states import TxnState
from ottla.storage.names import parse_directory_name

BEFORE, TORN, AFTER = "before", "torn", "after"

PREPARE = "prepare"
MARKER = "marker"
OFFSETS_MARKER = "offsets marker"
ABORTED_INDEX = "aborted index"
COMPLETE = "complete"
ONGOING = "ongoing"
IDENTITY = "identity"
DATA = "data"
PENDING_OFFSETS = "pending offsets"
GROUP = "group"
METADATA = "metadata"
FILE = "file"
TRUNCATE = "truncate"
INDEX = "index"

STAGES = (PREPARE, MARKER, OFFSETS_MARKER, ABORTED_INDEX, COMPLETE)
"""Kinds of writes by which a transaction ends, in this order."""
OTHERS = (ONGOING, IDENTITY, DATA, PENDING_OFFSETS, GROUP, FILE, TRUNCATE, INDEX)

PR_SET_PDEATHSIG = 1

KILL, PAUSE, TERM, FULL = "kill", "pause", "term", "full"


@dataclass(slots=True)
class Fault:
    """A fault that is triggered at the ``countdown``-th matching write of a broker process.

    If ``commit`` is set, only writes of a commit (True) or of an abort (False) match. With ``written``, only writes after that
    many markers of the transaction match. For a full disk, ``room_bytes`` is the free space that is left, and ``for_ms`` the
    duration.
    """

    kind: str
    side: str
    countdown: int
    do: str = KILL
    commit: bool | None = None
    written: int = 0
    room_bytes: int = 0
    for_ms: int = 0


@dataclass(slots=True)
class Hit:
    """A fault that was triggered.

    ``commit`` is True or False during the commit or abort of a transaction, else None. ``written`` is the number of markers of
    the transaction that were written before, and ``pending`` is the number of all its markers.
    """

    kind: str
    side: str
    do: str
    commit: bool | None = None
    written: int = 0
    pending: int = 0

    @property
    def is_inside(self) -> bool:
        """Whether the fault was triggered between the first byte of the Prepare record and the write of the Complete record."""
        return self.kind in STAGES and not (self.kind == PREPARE and self.side == BEFORE)


@dataclass(slots=True, frozen=True)
class Write:
    """A write that is about to happen. ``commit`` and ``producer_id`` are set if the write is part of the end of a transaction."""

    kind: str
    commit: bool | None = None
    producer_id: int = -1
    partitions: int = 0


class Classifier:
    """Determines the kind of each write, and counts the written markers of each decided transaction."""

    def __init__(self) -> None:
        # By producer id: whether the transaction commits, and the numbers of written and of all markers.
        self._ending: dict[int, tuple[bool, int, int]] = {}

    def progress(self, write: Write) -> tuple[int, int]:
        _, written, pending = self._ending.get(write.producer_id, (False, 0, 0))
        return written, pending

    def wrote(self, write: Write) -> None:
        if write.commit is None:
            return
        if write.kind == PREPARE:
            self._ending[write.producer_id] = (write.commit, 0, write.partitions)
        elif write.kind in (MARKER, OFFSETS_MARKER):
            written, pending = self.progress(write)
            self._ending[write.producer_id] = (write.commit, written + 1, max(pending, written + 1))
        elif write.kind == COMPLETE:
            self._ending.pop(write.producer_id, None)

    def name(self, path: str, data: bytes | bytearray | memoryview) -> Write:
        """Return kind and transaction of an append to a file of a partition."""
        if path.endswith(".txnindex"):
            return Write(ABORTED_INDEX, False, int.from_bytes(bytes(data[2:10]), "big"))
        if not path.endswith(".log") or len(data) < HEADER_BYTES:
            return Write(INDEX)
        header = read_header(data)
        topic = (parse_directory_name(Path(path).parent.name) or ("", 0))[0]
        if header.is_control:
            marker = read_marker(data, header)
            commit = marker.commit if marker is not None else None
            return Write(OFFSETS_MARKER if topic == OFFSETS_TOPIC else MARKER, commit, header.producer_id)
        if topic == TRANSACTION_TOPIC:
            return _state(data)
        if topic == OFFSETS_TOPIC:
            return Write(PENDING_OFFSETS if header.is_transactional else GROUP)
        return Write(METADATA if topic == METADATA_TOPIC else DATA)


def _state(data: bytes | bytearray | memoryview) -> Write:
    metadata: TxnMetadata | None = None
    for record in read_records(data):
        try:
            _, metadata = from_record(LogRecord(record.key, record.value))
        except DecodeError:
            return Write(IDENTITY)
    if metadata is None:
        return Write(IDENTITY)
    if metadata.state in PREPARED:
        return Write(PREPARE, metadata.state is TxnState.PREPARE_COMMIT, metadata.producer_id, len(metadata.partitions))
    if metadata.state in COMPLETED:
        # If the transaction used the last epoch of its producer id, this record already has the next producer id.
        return Write(COMPLETE, metadata.state is TxnState.COMPLETE_COMMIT, metadata.previous_producer_id)
    return Write(ONGOING if metadata.state is TxnState.ONGOING else IDENTITY)


def encode(faults: list[Fault]) -> str:
    return json.dumps([asdict(fault) for fault in faults])


def decode(text: str) -> list[Fault]:
    return [Fault(**fault) for fault in json.loads(text)]


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends, so that a killed test leaves no processes behind (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def hits_in(path: Path) -> list[Hit]:
    """Read the faults triggered so far from a hits file, oldest first."""
    if not path.exists():
        return []
    return [Hit(**json.loads(line)) for line in path.read_text().splitlines()]
