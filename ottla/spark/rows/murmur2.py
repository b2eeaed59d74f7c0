"""Kafka's partitioner for whole columns of keys (org.apache.kafka.common.utils.Utils.murmur2,
BuiltInPartitioner.partitionForKey)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)
_POSITIVE = 0x7FFFFFFF

Int = npt.NDArray[np.uint32]


def murmur2(keys: Sequence[bytes]) -> Int:
    """Return the hash of each key. Keys of equal length are hashed together."""
    hashes = np.zeros(len(keys), dtype=np.uint32)
    lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
    for length in np.unique(lengths):
        where = np.flatnonzero(lengths == length)
        joined = b"".join([keys[at] for at in where.tolist()])
        table = np.frombuffer(joined, dtype=np.uint8).reshape(len(where), int(length))
        hashes[where] = _of_one_length(table)
    return hashes


def _of_one_length(table: npt.NDArray[np.uint8]) -> Int:
    count, length = table.shape
    hashes = np.full(count, np.uint32(_SEED ^ length), dtype=np.uint32)
    whole = length - length % 4
    with np.errstate(over="ignore"):
        for word in np.ascontiguousarray(table[:, :whole]).view("<u4").T if whole else ():
            mixed = word * _M
            mixed ^= mixed >> np.uint32(24)
            hashes = (hashes * _M) ^ (mixed * _M)
        rest = table[:, whole:].astype(np.uint32)
        if rest.shape[1] >= 3:
            hashes ^= rest[:, 2] << np.uint32(16)
        if rest.shape[1] >= 2:
            hashes ^= rest[:, 1] << np.uint32(8)
        if rest.shape[1] >= 1:
            hashes = (hashes ^ rest[:, 0]) * _M
        hashes ^= hashes >> np.uint32(13)
        hashes *= _M
        hashes ^= hashes >> np.uint32(15)
    return hashes


def partitions_for(keys: Sequence[bytes | None], partitions: int, start: int = 0) -> list[int]:
    """Return the partition of each record. Records without a key are assigned round-robin, beginning with ``start``."""
    hashes = murmur2([b"" if key is None else key for key in keys])
    partition_indexes: list[int] = ((hashes & np.uint32(_POSITIVE)) % np.uint32(partitions)).tolist()
    for at, key in enumerate(keys):
        if key is None:
            partition_indexes[at] = (start + at) % partitions
    return partition_indexes
