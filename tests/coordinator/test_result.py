"""Where an id lives: Java's hash of it."""

from __future__ import annotations

import pytest

from ottla.coordinator.result import java_hash


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 511, 512, 1_000])
def test_long_ids_hash_as_their_definition_says(length: int) -> None:
    """String.hashCode: s[0] * 31^(n-1) + ... + s[n-1], in 32 bits with a sign."""
    text = "".join(chr(0x21 + 7 * at) for at in range(length))
    raw = text.encode("utf-16-be")
    units = [int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2)]
    value = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units)) % (1 << 32)
    assert java_hash(text) == (value - (1 << 32) if value >= 1 << 31 else value)
