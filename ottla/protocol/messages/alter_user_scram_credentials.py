"""AlterUserScramCredentials: generated from protocol/schemas/alter_user_scram_credentials.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_bytes_length,
    compact_string,
    read_compact_bytes,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_bi = _Struct(">bi")
_fmt_h = _Struct(">h")
_fmt_i = _Struct(">i")

API_KEY = 51

class ScramCredentialDeletion(msgspec.Struct, gc=False):
    name: str = ""
    mechanism: int = 0


def _read_scram_credential_deletion(buf: Buffer, pos: int, version: int) -> tuple[ScramCredentialDeletion, int]:
    name, pos = read_compact_string(buf, pos)
    (mechanism,) = _fmt_b.unpack_from(buf, pos)
    pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ScramCredentialDeletion(name, mechanism), pos


def _write_scram_credential_deletion(put: Put, m: ScramCredentialDeletion, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_b.pack(m.mechanism))
    put(b"\0")


class ScramCredentialUpsertion(msgspec.Struct, gc=False):
    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


def _read_scram_credential_upsertion(buf: Buffer, pos: int, version: int) -> tuple[ScramCredentialUpsertion, int]:
    name, pos = read_compact_string(buf, pos)
    mechanism, iterations = _fmt_bi.unpack_from(buf, pos)
    pos += 5
    salt, pos = read_compact_bytes(buf, pos)
    salted_password, pos = read_compact_bytes(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return ScramCredentialUpsertion(name, mechanism, iterations, salt, salted_password), pos


def _write_scram_credential_upsertion(put: Put, m: ScramCredentialUpsertion, version: int) -> None:
    put(compact_string(m.name))
    put(_fmt_bi.pack(m.mechanism, m.iterations))
    put(compact_bytes_length(m.salt))
    put(m.salt)
    put(compact_bytes_length(m.salted_password))
    put(m.salted_password)
    put(b"\0")


class AlterUserScramCredentialsRequest(msgspec.Struct, gc=False):
    deletions: list[ScramCredentialDeletion] = []
    upsertions: list[ScramCredentialUpsertion] = []


def _read_alter_user_scram_credentials_request(buf: Buffer, pos: int, version: int) -> tuple[AlterUserScramCredentialsRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    deletions: list[ScramCredentialDeletion] = []
    for _ in range(_count):
        _deletions_item, pos = _read_scram_credential_deletion(buf, pos, version)
        deletions.append(_deletions_item)
    _count, pos = read_compact_length(buf, pos)
    upsertions: list[ScramCredentialUpsertion] = []
    for _ in range(_count):
        _upsertions_item, pos = _read_scram_credential_upsertion(buf, pos, version)
        upsertions.append(_upsertions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterUserScramCredentialsRequest(deletions, upsertions), pos


def _write_alter_user_scram_credentials_request(put: Put, m: AlterUserScramCredentialsRequest, version: int) -> None:
    put(uvarint(len(m.deletions) + 1))
    for item_deletions in m.deletions:
        _write_scram_credential_deletion(put, item_deletions, version)
    put(uvarint(len(m.upsertions) + 1))
    for item_upsertions in m.upsertions:
        _write_scram_credential_upsertion(put, item_upsertions, version)
    put(b"\0")


class AlterUserScramCredentialsResult(msgspec.Struct, gc=False):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


def _read_alter_user_scram_credentials_result(buf: Buffer, pos: int, version: int) -> tuple[AlterUserScramCredentialsResult, int]:
    user, pos = read_compact_string(buf, pos)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterUserScramCredentialsResult(user, error_code, error_message), pos


def _write_alter_user_scram_credentials_result(put: Put, m: AlterUserScramCredentialsResult, version: int) -> None:
    put(compact_string(m.user))
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(b"\0")


class AlterUserScramCredentialsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = []


def _read_alter_user_scram_credentials_response(buf: Buffer, pos: int, version: int) -> tuple[AlterUserScramCredentialsResponse, int]:
    (throttle_time_ms,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    results: list[AlterUserScramCredentialsResult] = []
    for _ in range(_count):
        _results_item, pos = _read_alter_user_scram_credentials_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return AlterUserScramCredentialsResponse(throttle_time_ms, results), pos


def _write_alter_user_scram_credentials_response(put: Put, m: AlterUserScramCredentialsResponse, version: int) -> None:
    put(_fmt_i.pack(m.throttle_time_ms))
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_alter_user_scram_credentials_result(put, item_results, version)
    put(b"\0")


decode_request = _read_alter_user_scram_credentials_request
encode_request = _write_alter_user_scram_credentials_request
decode_response = _read_alter_user_scram_credentials_response
encode_response = _write_alter_user_scram_credentials_response
