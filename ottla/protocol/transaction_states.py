"""The states of a transactional id, with their numbers in ``__transaction_state``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

TV2: Final = 2
"""transaction.version 2 (KIP-890): each transaction ends with a bumped producer epoch, which its markers contain."""


class TxnState(IntEnum):
    """The states of org.apache.kafka.coordinator.transaction.TransactionState. The values are the numbers in the log."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """The name that Kafka's tools print, such as ``PrepareCommit``."""
        return "".join(part.capitalize() for part in self.name.split("_"))
