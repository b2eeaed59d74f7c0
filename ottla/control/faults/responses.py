"""Builds whole responses from JSON values, by the field names of Kafka's schemas."""

from __future__ import annotations

import struct
from base64 import b64decode
from binascii import Error as NotBase64
from typing import Any, get_args, get_origin

import msgspec

from ottla.control.faults.api_names import FaultError, error_code, response_type, shown, unknown
from ottla.protocol.codec import api, response_parts
from ottla.protocol.messages import APIS


def response_of(key: int, answer: dict[str, Any]) -> Any:
    """Build the response of an API. Omitted fields have their defaults. Error codes may be names; ids and records are base64.
    Raises `FaultError`."""
    what, codec = f"a response to {APIS[key].name}", api(key)
    response = _struct(what, response_type(key), answer)
    try:
        for version in range(codec.min_version, codec.max_version + 1):
            response_parts(codec, version, 0, response)
    except (struct.error, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise FaultError(f"{what} cannot be encoded in version {version}: {error}") from None
    return response


def _struct(what: str, kind: type[msgspec.Struct], given: Any) -> Any:
    if not isinstance(given, dict):
        raise FaultError(f"{what} must be a mapping of fields, not {shown(given)}")
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    for name in given:
        if name not in types:
            raise unknown(f"field of {what}", name, types)
    return kind(**{name: _value(f"{name} of {what}", name, types[name], value) for name, value in given.items()})


def _value(what: str, name: str, kind: Any, given: Any) -> Any:
    options = [kind] if get_origin(kind) is list or not get_args(kind) else list(get_args(kind))
    if given is None and type(None) in options:
        return None
    wanted = options[0]
    if get_origin(wanted) is list:
        if not isinstance(given, list):
            raise FaultError(f"{what} must be a list, not {shown(given)}")
        (element,) = get_args(wanted)
        return [_value(what, name, element, one) for one in given]
    if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
        return _struct(what, wanted, given)
    if wanted is int and name.endswith("error_code") and isinstance(given, str) and given != "NONE":
        return error_code(given)
    if wanted is int and name.endswith("error_code") and given == "NONE":
        return 0
    if wanted is bytes and isinstance(given, str):
        return _bytes(what, given)
    if isinstance(given, wanted) and isinstance(given, bool) == (wanted is bool):
        return given
    raise FaultError(f"{what} must be {_WORDS.get(wanted, wanted.__name__)}, not {shown(given)}")


def _bytes(what: str, given: str) -> bytes:
    try:
        return b64decode(given, validate=True)
    except (NotBase64, ValueError):
        raise FaultError(f"{what} must be base64, not {shown(given)}") from None


_WORDS = {int: "a number", str: "text", bool: "true or false", bytes: "base64", float: "a number"}
