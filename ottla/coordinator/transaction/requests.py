"""What goes into and comes out of a transaction shard."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ottla.protocol.errors import Code

NewProducerId = Callable[[], int]

TV2 = 2

NO_TIMEOUT_MS = 0x7FFFFFFF
"""The time-out of a producer that takes part in a two-phase commit: its transactions wait for as long as it takes (KIP-939)."""


class TxnConfig(msgspec.Struct, frozen=True):
    """``two_phase_commit``: clients may prepare transactions that never time out."""

    max_timeout_ms: int = 900_000
    two_phase_commit: bool = False
    id_expiration_ms: int = 604_800_000


class ProducerIdAndEpoch(msgspec.Struct, gc=False, frozen=True):
    producer_id: int
    epoch: int


class Initialised(msgspec.Struct, gc=False, frozen=True):
    """Answer of InitProducerId. ``aborting``: an open transaction is aborted first and the client must ask again."""

    identity: ProducerIdAndEpoch
    aborting: bool = False


class Ended(msgspec.Struct, gc=False, frozen=True):
    """Answer of EndTxn. ``refused``: what the client is told instead."""

    identity: ProducerIdAndEpoch
    refused: Code = Code.NONE
