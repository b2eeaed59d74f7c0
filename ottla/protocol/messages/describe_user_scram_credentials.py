"""DescribeUserScramCredentials: generated from protocol/schemas/describe_user_scram_credentials.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_bi = _Struct(">bi")
_fmt_h = _Struct(">h")
_fmt_ih = _Struct(">ih")

API_KEY = 50

class UserName(msgspec.Struct, gc=False):
    name: str = ""


def _read_user_name(buf: Buffer, pos: int, version: int) -> tuple[UserName, int]:
    name, pos = read_compact_string(buf, pos)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return UserName(name), pos


def _write_user_name(put: Put, m: UserName, version: int) -> None:
    put(compact_string(m.name))
    put(b"\0")


class DescribeUserScramCredentialsRequest(msgspec.Struct, gc=False):
    users: list[UserName] | None = []


def _read_describe_user_scram_credentials_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeUserScramCredentialsRequest, int]:
    _count, pos = read_compact_nullable_length(buf, pos)
    users: list[UserName] | None = None
    if _count >= 0:
        users = []
        for _ in range(_count):
            _users_item, pos = _read_user_name(buf, pos, version)
            users.append(_users_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeUserScramCredentialsRequest(users), pos


def _write_describe_user_scram_credentials_request(put: Put, m: DescribeUserScramCredentialsRequest, version: int) -> None:
    if m.users is None:
        put(b"\0")
    else:
        put(uvarint(len(m.users) + 1))
        for item_users in m.users:
            _write_user_name(put, item_users, version)
    put(b"\0")


class CredentialInfo(msgspec.Struct, gc=False):
    mechanism: int = 0
    iterations: int = 0


def _read_credential_info(buf: Buffer, pos: int, version: int) -> tuple[CredentialInfo, int]:
    mechanism, iterations = _fmt_bi.unpack_from(buf, pos)
    pos += 5
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return CredentialInfo(mechanism, iterations), pos


def _write_credential_info(put: Put, m: CredentialInfo, version: int) -> None:
    put(_fmt_bi.pack(m.mechanism, m.iterations))
    put(b"\0")


class DescribeUserScramCredentialsResult(msgspec.Struct, gc=False):
    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = []


def _read_describe_user_scram_credentials_result(buf: Buffer, pos: int, version: int) -> tuple[DescribeUserScramCredentialsResult, int]:
    user, pos = read_compact_string(buf, pos)
    (error_code,) = _fmt_h.unpack_from(buf, pos)
    pos += 2
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    credential_infos: list[CredentialInfo] = []
    for _ in range(_count):
        _credential_infos_item, pos = _read_credential_info(buf, pos, version)
        credential_infos.append(_credential_infos_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeUserScramCredentialsResult(user, error_code, error_message, credential_infos), pos


def _write_describe_user_scram_credentials_result(put: Put, m: DescribeUserScramCredentialsResult, version: int) -> None:
    put(compact_string(m.user))
    put(_fmt_h.pack(m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.credential_infos) + 1))
    for item_credential_infos in m.credential_infos:
        _write_credential_info(put, item_credential_infos, version)
    put(b"\0")


class DescribeUserScramCredentialsResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = []


def _read_describe_user_scram_credentials_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeUserScramCredentialsResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    results: list[DescribeUserScramCredentialsResult] = []
    for _ in range(_count):
        _results_item, pos = _read_describe_user_scram_credentials_result(buf, pos, version)
        results.append(_results_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeUserScramCredentialsResponse(throttle_time_ms, error_code, error_message, results), pos


def _write_describe_user_scram_credentials_response(put: Put, m: DescribeUserScramCredentialsResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    put(uvarint(len(m.results) + 1))
    for item_results in m.results:
        _write_describe_user_scram_credentials_result(put, item_results, version)
    put(b"\0")


decode_request = _read_describe_user_scram_credentials_request
encode_request = _write_describe_user_scram_credentials_request
decode_response = _read_describe_user_scram_credentials_response
encode_response = _write_describe_user_scram_credentials_response
