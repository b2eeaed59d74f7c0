"""Where a fault can hit in the broker under test, and how.

What survives a kill is what was written, so every write is a point: before it, in the middle of it, after it. A point is
named by what is written, which is read off the bytes themselves: the names hold however the broker's code is arranged.
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
"""What the end of a transaction writes, in this order."""
OTHERS = (ONGOING, IDENTITY, DATA, PENDING_OFFSETS, GROUP, FILE, TRUNCATE, INDEX)

PR_SET_PDEATHSIG = 1

KILL, PAUSE, TERM, FULL = "kill", "pause", "term", "full"


@dataclass(slots=True)
class Fault:
    """Hits at the ``countdown``-th write of this kind in a broker's life.

    With ``commit`` only writes of that decision count, with ``written`` only those after so many of its markers.
    ``room_bytes`` and ``for_ms`` say how much a full disk still takes, and for how long it is full.
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
    """A fault that was triggered. ``commit`` is the decision that was being carried out, None where none was.

    ``written`` of ``owed`` markers of that transaction had been written before.
    """

    kind: str
    side: str
    do: str
    commit: bool | None = None
    written: int = 0
    owed: int = 0

    @property
    def is_inside(self) -> bool:
        """Whether a decided transaction was between its first byte of Prepare and the answer to its EndTxn."""
        return self.kind in STAGES and not (self.kind == PREPARE and self.side == BEFORE)


@dataclass(slots=True, frozen=True)
class Write:
    """What is about to be written. ``commit`` as in `Hit`; ``producer_id`` where a transaction is being ended."""

    kind: str
    commit: bool | None = None
    producer_id: int = -1
    partitions: int = 0


class Classifier:
    """Names writes, and counts the markers of each decided transaction."""

    def __init__(self) -> None:
        # producer id -> outcome, markers written, markers owed
        self._ending: dict[int, tuple[bool, int, int]] = {}

    def progress(self, write: Write) -> tuple[int, int]:
        _, written, owed = self._ending.get(write.producer_id, (False, 0, 0))
        return written, owed

    def wrote(self, write: Write) -> None:
        if write.commit is None:
            return
        if write.kind == PREPARE:
            self._ending[write.producer_id] = (write.commit, 0, write.partitions)
        elif write.kind in (MARKER, OFFSETS_MARKER):
            written, owed = self.progress(write)
            self._ending[write.producer_id] = (write.commit, written + 1, max(owed, written + 1))
        elif write.kind == COMPLETE:
            self._ending.pop(write.producer_id, None)

    def name(self, path: str, data: bytes | bytearray | memoryview) -> Write:
        """An append to a partition's file."""
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
        # With the last epoch the next producer id is in use already.
        return Write(COMPLETE, metadata.state is TxnState.COMPLETE_COMMIT, metadata.previous_producer_id)
    return Write(ONGOING if metadata.state is TxnState.ONGOING else IDENTITY)


def encode(faults: list[Fault]) -> str:
    return json.dumps([asdict(fault) for fault in faults])


def decode(text: str) -> list[Fault]:
    return [Fault(**fault) for fault in json.loads(text)]


def die_with_parent() -> None:
    """Whoever directs the chaos may be killed itself: nothing of it is left behind, stopped processes neither (Linux)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def hits_in(path: Path) -> list[Hit]:
    """What was triggered by now, oldest first."""
    if not path.exists():
        return []
    return [Hit(**json.loads(line)) for line in path.read_text().splitlines()]
