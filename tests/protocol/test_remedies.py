"""Error codes by category: retriable, abortable and fenced."""

from __future__ import annotations

from ottla.protocol.errors import Code
from ottla.protocol.remedies import ABORTABLE, FENCED, RETRIABLE, code_of, name_of


def test_retriable_abortable_and_fencing_error_codes_are_disjoint() -> None:
    assert len(RETRIABLE | ABORTABLE | FENCED) == len(RETRIABLE) + len(ABORTABLE) + len(FENCED)
    assert Code.NONE not in RETRIABLE | ABORTABLE | FENCED


def test_unknown_kafka_error_code_is_named_by_its_number() -> None:
    assert (name_of(5), name_of(-1), name_of(32_000)) == ("LEADER_NOT_AVAILABLE", "UNKNOWN_SERVER_ERROR", "error 32000")
    assert (code_of(5), code_of(32_000)) == (Code.LEADER_NOT_AVAILABLE, Code.UNKNOWN_SERVER_ERROR)
