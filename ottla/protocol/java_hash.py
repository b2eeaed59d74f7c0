"""Java's hash of a string, by which Kafka assigns a group id or a transactional id to a partition of its coordinator's topic."""

from __future__ import annotations

import sys
from functools import lru_cache
from operator import mul

_BLOCK = 256
_POWERS = [pow(31, _BLOCK - 1 - at, 1 << 32) for at in range(_BLOCK)]
_NEXT_BLOCK = pow(31, _BLOCK, 1 << 32)
_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """String.hashCode of Java, over UTF-16 code units, as a signed 32-bit number.

    The hash is computed in blocks for speed: an id may have 32,767 characters, and a request may have many ids.
    """
    units = memoryview(text.encode(_UTF_16, "surrogatepass")).cast("H")
    value, first = 0, len(units) % _BLOCK
    for unit in units[:first]:
        value = (31 * value + unit) & 0xFFFFFFFF
    for start in range(first, len(units), _BLOCK):
        value = (_NEXT_BLOCK * value + sum(map(mul, units[start : start + _BLOCK], _POWERS))) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


HASHED_CHARACTERS = 25
"""Number of characters that `java_hash` hashes in one unit of work (`protocol.steps.Pace`)."""


def id_work(text: str) -> int:
    """Units of work (`protocol.steps.Pace`) of `partition_for` for an id. A client may send ids of 32,767 characters."""
    return 5 + len(text) // HASHED_CHARACTERS


SHORT_CHARACTERS = 128
"""Maximum length of an id whose hash is cached, which limits the memory of the cache to about 1 MB."""
_remembered_hash = lru_cache(maxsize=2_000)(java_hash)


def partition_for(key: str, partition_count: int) -> int:
    """The coordinator partition of a group or transactional id (Utils.abs(key.hashCode) % count)."""
    value = _remembered_hash(key) if len(key) <= SHORT_CHARACTERS else java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
