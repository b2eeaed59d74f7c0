"""Searches partitions of a topic for records, newest first or oldest first, within a budget of offsets and bytes.

Records of the partitions are merged by timestamp. Each partition is read in chunks of offsets, and the batches of a chunk are
decoded one by one in the direction of the search, which limits the memory of a search. The next page continues from the position
that the search has reached in each partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ottla.client.cluster import BrokerConnections
from ottla.client.errors import BatchTooLarge, ClientError
from ottla.client.records.reading import FETCH_WAIT_MS, FRUITLESS_ROUNDS, Isolation, classified, fetch
from ottla.client.records.record import ConsumedRecord, decoded
from ottla.protocol.inflating import Allowance
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.records import BatchHeader

OFFSETS_SEARCHED: Final = 20_000
"""Maximum number of offsets of all partitions together that a page searches, because few records may match."""
BYTES_INFLATED: Final = 32 << 20
"""Maximum size of the inflated batches of one page, in bytes. Without a limit, a small batch might inflate to 256 MiB each
time the page reads it."""
BYTES_FETCHED: Final = 64 << 20
"""Maximum size, in bytes, of the responses of one page. The last response may exceed it."""
FIRST_CHUNK: Final = 32
"""Number of offsets of a partition's first chunk. It often has enough records."""
LARGEST_CHUNK: Final = 2_000
CHUNK_BYTES: Final = 8 << 20
"""Size, in bytes, at which a chunk ends early, after at least one batch."""
BATCH_RECORDS: Final = 500_000
"""Maximum number of records of a batch that a search decodes: decoding half a million takes about a second."""

Matches = Callable[[ConsumedRecord], bool]
ReadsBatch = Callable[[BatchHeader], bool]


class SearchedPartition:
    """The state of a search in one partition: the offsets [``low``, ``high``) are not read yet. ``found`` has matching records that
    are not on the page yet, in the direction of the search."""

    def __init__(self, index: int, low: int, high: int, *, newest_first: bool) -> None:
        self.index = index
        self.low, self.high = low, max(low, high)
        self.limits = (self.low, self.high)
        self.found: deque[ConsumedRecord] = deque()
        self.newest_first = newest_first
        self._batches: deque[tuple[BatchHeader, memoryview]] = deque()
        self._size = FIRST_CHUNK
        self._chunk = (0, 0)
        self._read_bytes = 0

    @property
    def is_done(self) -> bool:
        return self.low >= self.high and not self._batches

    @property
    def has_batches(self) -> bool:
        return bool(self._batches)

    @property
    def next_bound(self) -> int:
        """The offset at which the next page continues: the offset of its first record, plus one if the newest records come
        first."""
        if self.found:
            return self.found[0].offset + int(self.newest_first)
        if not self._batches:
            return self.high if self.newest_first else self.low
        header = self._batches[0][0]
        # A batch may extend beyond `limits`, because a page may begin inside of a batch.
        return min(header.next_offset, self.limits[1]) if self.newest_first else max(header.base_offset, self.limits[0])

    def begin_chunk(self) -> int:
        """Begin the next chunk, and return its first offset."""
        size = min(self._size, self.high - self.low)
        self._chunk = (self.high - size, self.high) if self.newest_first else (self.low, self.low + size)
        self._read_bytes = 0
        return self._chunk[0]

    def take(self, topic: str, isolation: Isolation, data: PartitionData, at: int, reads: ReadsBatch | None) -> int | None:
        """Add the batches of a response to the chunk, without those for which ``reads`` is false. ``at`` is the requested offset.
        Returns the offset to fetch next; None if the chunk is complete."""
        low, high = self._chunk
        for batch, header, is_visible in classified(topic, data, isolation):
            if header.base_offset >= high:
                # Compaction has removed all further records of the chunk.
                at = header.base_offset
                break
            if header.next_offset <= at:
                continue
            at = header.next_offset
            if is_visible and (reads is None or reads(header)):
                self._batches.append((header, batch))
        self._read_bytes += len(data.records or b"")
        if at < high and self._read_bytes >= CHUNK_BYTES and self.newest_first and high - low > 1:
            # The newest records come first, but older batches exceed `CHUNK_BYTES`, so fetch the chunk's last batch alone.
            self._batches.clear()
            self._size = 1
            return self.begin_chunk()
        if at < high and (self._read_bytes < CHUNK_BYTES or self.newest_first):
            return at
        self._end_chunk(low if self.newest_first else min(at, self.high))
        return None

    def _end_chunk(self, reached: int) -> None:
        if self.newest_first:
            self._batches.reverse()
            # The first batch may begin before the chunk. The next chunk ends at that batch, to read the batch only once.
            self.high = min(reached, self._batches[-1][0].base_offset) if self._batches else reached
            self.high = max(self.low, self.high)
        else:
            self.low = reached
        if self._read_bytes < CHUNK_BYTES // 8:
            self._size = min(4 * self._size, LARGEST_CHUNK)

    def decode_next(self, topic: str, matches: Matches, most: int, allowance: Allowance) -> str | None:
        """Decode the next batch and collect its first ``most`` matching records in the direction of the search.

        Returns the reason if the batch was omitted. Raises `BatchTooLarge` if the batch inflates to more than the rest of
        ``allowance``: the next page decodes it.
        """
        header, batch = self._batches[0]
        where = f"the batch at offset {header.base_offset:,} of {topic}-{self.index}"
        omitted = f"so its offsets to {header.next_offset - 1:,} are not shown; ottla consume reads it"
        problem: str | None = None
        found: deque[ConsumedRecord] = deque(maxlen=most if self.newest_first else None)
        if header.record_count > BATCH_RECORDS:
            problem = f"{where} has more than {BATCH_RECORDS:,} records, {omitted}"
        else:
            try:
                for record in decoded(topic, self.index, batch, header, allowance):
                    if self.limits[0] <= record.offset < self.limits[1] and matches(record):
                        found.append(record)
                        if len(found) == most and not self.newest_first:
                            break
            except BatchTooLarge as error:
                if not error.is_alone:
                    raise
                problem = f"{error}, more than a page reads, {omitted}"
            except ClientError as error:
                problem = str(error)
        self._batches.popleft()
        self.found = deque(reversed(found)) if self.newest_first else found
        return problem


class Search:
    """One search in ``ranges``: the first offset of each partition, and the offset after the last.

    After `run`, ``problems`` names omitted batches, ``searched`` is the number of searched offsets, and ``next_bounds`` has the
    position of each partition whose search is not complete. ``check`` raises an error if the page must stop. Batches for whose
    header ``reads`` is false are not decoded.
    """

    def __init__(
        self,
        brokers: BrokerConnections,
        topic: str,
        isolation: Isolation,
        ranges: Mapping[int, tuple[int, int]],
        *,
        newest_first: bool,
        matches: Matches,
        check: Callable[[], None],
        reads: ReadsBatch | None = None,
    ) -> None:
        self._brokers = brokers
        self._reads = reads
        self._topic = topic
        self._isolation: Isolation = isolation
        self._newest_first = newest_first
        self._matches = matches
        self._check = check
        self._parts = [SearchedPartition(index, *ends, newest_first=newest_first) for index, ends in sorted(ranges.items())]
        self._inflated = Allowance(BYTES_INFLATED)
        self._fetched_bytes = 0
        self.searched = 0
        self.problems: list[str] = []
        self.is_spent = False
        """Whether the budget ended the search before the page was full."""

    @property
    def next_bounds(self) -> dict[int, int]:
        return {part.index: part.next_bound for part in self._parts if part.found or not part.is_done}

    def run(self, most: int) -> list[ConsumedRecord]:
        """Return the next records, at most ``most``. Raises `ClientError`."""
        page: list[ConsumedRecord] = []
        while len(page) < most:
            try:
                self._decode([part for part in self._parts if not part.found], most)
            except BatchTooLarge:
                self.is_spent = True
            hungry = [part for part in self._parts if not part.found and not part.is_done]
            if hungry and not self.is_spent:
                self.is_spent = self.searched >= OFFSETS_SEARCHED or self._fetched_bytes >= BYTES_FETCHED
                if not self.is_spent:
                    self._fill(hungry)
                    continue
            # If the budget is spent, the records found so far are shown, although other partitions may have records that come
            # before them.
            heads = [part for part in self._parts if part.found]
            if not heads:
                break
            page.append(self._first(heads).found.popleft())
        self.is_spent = self.is_spent and len(page) < most
        return page

    def _first(self, heads: Iterable[SearchedPartition]) -> SearchedPartition:
        choose = max if self._newest_first else min
        return choose(heads, key=lambda part: part.found[0].timestamp_ms)

    def _decode(self, parts: Iterable[SearchedPartition], most: int) -> None:
        for part in parts:
            while part.has_batches and not part.found and not self.is_spent:
                self._check()
                # Collect one more record than the page shows: the next page continues from that record's offset.
                problem = part.decode_next(self._topic, self._matches, most + 1, self._inflated)
                if problem is not None:
                    self.problems.append(problem)
                    self.is_spent = self._inflated.left_bytes < 0

    def _fill(self, hungry: Iterable[SearchedPartition]) -> None:
        parts = {part.index: part for part in hungry}
        wanted = {index: part.begin_chunk() for index, part in parts.items()}
        before = sum(part.high - part.low for part in parts.values())
        fruitless = 0
        while wanted:
            self._check()
            answered = fetch(self._brokers, self._topic, wanted, committed=self._isolation != "all", max_wait_ms=FETCH_WAIT_MS)
            has_data = False
            for index, data in answered.items():
                size = len(data.records or b"")
                self._fetched_bytes += size
                has_data = has_data or size > 0
                following = parts[index].take(self._topic, self._isolation, data, wanted[index], self._reads)
                if following is None:
                    del wanted[index]
                else:
                    wanted[index] = following
            fruitless = 0 if has_data else fruitless + 1
            if fruitless == FRUITLESS_ROUNDS:
                raise ClientError(
                    f"the broker returned no records of {self._topic}, although the topic has more; read another offset"
                )
        self.searched += max(1, before - sum(part.high - part.low for part in parts.values()))
