"""The settings of a transaction shard, and the arguments and results of its commands."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ottla.protocol.errors import Code

NewProducerId = Callable[[], int]

NO_TIMEOUT_MS = 0x7FFFFFFF
"""The transaction timeout of a producer with two-phase commit, whose transactions never time out (KIP-939)."""


class TxnConfig(msgspec.Struct, frozen=True):
    """The settings of the transaction coordinator. ``two_phase_commit``: clients may have transactions that never time out."""

    max_timeout_ms: int = 900_000
    two_phase_commit: bool = False
    id_expiration_ms: int = 604_800_000


class ProducerIdAndEpoch(msgspec.Struct, gc=False, frozen=True):
    producer_id: int
    epoch: int


class Initialised(msgspec.Struct, gc=False, frozen=True):
    """The result of InitProducerId. ``aborting``: an open transaction is aborted first, and the client must retry."""

    identity: ProducerIdAndEpoch
    aborting: bool = False


class Ended(msgspec.Struct, gc=False, frozen=True):
    """The result of EndTxn. ``refused`` is an error for the client, although the command has effects."""

    identity: ProducerIdAndEpoch
    refused: Code = Code.NONE
