"""TransactionLogKey: generated from protocol/schemas/transaction_log_key.schema by protocol.codegen; do not edit."""

from __future__ import annotations

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    read_string,
    string,
)


RECORD_TYPE = 0
MIN_VERSION = 0
MAX_VERSION = 0

class TransactionLogKey(msgspec.Struct, gc=False):
    transactional_id: str = ""


def _read_transaction_log_key(buf: Buffer, pos: int, version: int) -> tuple[TransactionLogKey, int]:
    transactional_id, pos = read_string(buf, pos)
    return TransactionLogKey(transactional_id), pos


def _write_transaction_log_key(put: Put, m: TransactionLogKey, version: int) -> None:
    put(string(m.transactional_id))


decode = _read_transaction_log_key
encode = _write_transaction_log_key
