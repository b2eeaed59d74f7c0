"""The options of ``ottla consume`` and ``ottla produce`` for values in a schema registry's format."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.arguments import BadArgument
from ottla.cli.commands import Refused
from ottla.cli.options import PATH, READY_FILE_VARIABLE, Checked, is_given

if TYPE_CHECKING:
    from ottla.client import ConsumedRecord
    from ottla.client.records.record_filter import Condition, RecordFilter
    from ottla.client.schema_registry.registry_client import Registry, RegistryClient

DEFAULT_REGISTRY: Final = "http://127.0.0.1:8081"
REGISTRY_VARIABLE: Final = "OTTLA_SCHEMA_REGISTRY"
USER_VARIABLE: Final = "OTTLA_SCHEMA_REGISTRY_USER"
"""The environment variable with the registry's ``USER:PASSWORD``. An option would show the password to other users."""
MAX_VERSION_DIGITS: Final = 9
"""Maximum number of digits of a version, so that it fits four bytes. Longer numbers belong to the subject's name."""

C = TypeVar("C", bound=Callable[..., Any])


def _with_registry(command: C) -> C:
    return click.option(
        "--registry",
        envvar=REGISTRY_VARIABLE,
        metavar="URL",
        help=f"Schema registry (default: ${REGISTRY_VARIABLE}, else from ${READY_FILE_VARIABLE}, else {DEFAULT_REGISTRY});"
        f" ${USER_VARIABLE} is USER:PASSWORD.",
    )(command)


def decodes(command: C) -> C:
    """Add the options of a command that decodes values."""
    command = _with_registry(command)
    return click.option("--decode", is_flag=True, help="Decode keys and values in a schema registry's format to JSON.")(command)


def refuse_unused_registry(*, is_needed: bool, use: str) -> None:
    """Raise `UsageError` if ``--registry`` is on the command line of a command that needs no registry. ``use`` says how to use
    it."""
    if is_given("registry") and not is_needed:
        raise click.UsageError(f"--registry is for {use}")


def subject_and_version(text: str) -> tuple[str, int | None]:
    """Parse ``SUBJECT:VERSION``, or ``SUBJECT``, for which the version is None: the latest. Raises `BadArgument`."""
    subject, colon, version = text.rpartition(":")
    if not (colon and version.isascii() and version.isdigit() and len(version) <= MAX_VERSION_DIGITS):
        subject, version = text, ""
    if not subject:
        raise BadArgument(f"{text!r} is not SUBJECT or SUBJECT:VERSION, as in orders-value or orders-value:2")
    return subject, int(version) if version else None


SUBJECT_VERSION: Final = Checked("schema", subject_and_version)


def encodes(command: C) -> C:
    """Add the options of a command that encodes keys and values."""
    command = _with_registry(command)
    for part in ("value", "key"):
        command = click.option(
            f"--{part}-schema",
            type=SUBJECT_VERSION,
            metavar="SUBJECT[:V]",
            help=f"Encode {part}s, which are JSON, by a schema of the registry (default: the subject's latest version).",
        )(command)
    return click.option(
        "--schema",
        type=PATH,
        metavar="FILE",
        help="Encode values, which are JSON, by the schema in FILE (.avsc, .proto or .json), and register it as TOPIC-value.",
    )(command)


def decoded_records(records: Iterable[ConsumedRecord], registry: str | None, *, decodes: bool) -> Iterator[ConsumedRecord]:
    """Yield records whose keys and values are JSON if the registry has their schemas; other records are unchanged."""
    if not decodes:
        yield from records
        return
    from ottla.client.schema_registry.decoding import RegistryDecoder

    decoder = RegistryDecoder(_client(registry))

    def text(data: bytes | None) -> bytes | None:
        found = decoder.decode(data)
        return data if found is None else json.dumps(found.value, ensure_ascii=False).encode()

    for record in records:
        is_data = record.control is None
        yield dataclasses.replace(record, key=text(record.key), value=text(record.value)) if is_data else record


def record_filter(conditions: tuple[Condition, ...], registry: str | None, *, decodes: bool) -> RecordFilter:
    """Return the filter of all conditions. With ``decodes``, paths of conditions apply to decoded values."""
    from ottla.client.records.record_filter import RecordFilter, json_document

    if not decodes:
        return RecordFilter(conditions)
    from ottla.client.schema_registry.decoding import RegistryDecoder

    decoder = RegistryDecoder(_client(registry))

    def document(data: bytes) -> Any:
        found = decoder.decode(data)
        return json_document(data) if found is None else found.value

    return RecordFilter(conditions, document)


def version_encoder(part: str, chosen: tuple[str, int | None] | None, registry: str | None) -> Callable[[bytes], bytes]:
    """Return a function that encodes keys or values by the schema of a subject's version; without one they are unchanged. Errors
    name the ``part``. Raises `ClientError`."""
    if chosen is None:
        return lambda text: text
    from ottla.client.schema_registry import encoding

    return encoding.version_encoder(_client(registry), *chosen, part=part)[1].encode


def value_encoder(topic: str, schema: Path | None, registry: str | None) -> Callable[[bytes], bytes]:
    """Register the schema in a file, and return a function that encodes values; without a file values are unchanged. Raises
    `Refused` and `ClientError`."""
    if schema is None:
        return lambda value: value
    from ottla.client.schema_registry.encoding import kind_of, registering_encoder
    from ottla.client.schema_registry.registry_client import subject_of

    kind = kind_of(schema)
    try:
        text = schema.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {schema}: {getattr(error, 'strerror', None) or error}") from None
    return registering_encoder(_client(registry), subject_of(topic), text, kind).encode


def _client(registry: str | None) -> RegistryClient:
    from ottla.client.schema_registry.registry_client import RegistryClient

    url, token = (registry, None) if registry else _of_ready_file()
    return RegistryClient(_with_credentials(url, token or ""))


def _with_credentials(url: str, token: str = "") -> Registry:
    """Return the registry at a URL, with ``USER:PASSWORD`` of the environment, else with a bearer token."""
    from ottla.client.schema_registry.registry_client import Registry
    from ottla.client.security.client_config import Secret

    user, _, password = os.environ.get(USER_VARIABLE, "").partition(":")
    return Registry(url, user=user, password=Secret(password)) if user else Registry(url, token=Secret(token))


def registry_of(url: str | None, properties: Mapping[str, str]) -> Registry | None:
    """Return the registry at a URL, else that of Confluent's client properties ``schema.registry.url``, ``basic.auth.user.info``
    and ``bearer.auth.token``, which may begin with ``schema.registry.``; None without a URL. Raises `ClientError`."""
    from ottla.client.schema_registry.registry_client import Registry
    from ottla.client.security.client_config import Secret

    def given(name: str) -> str:
        return properties.get(f"schema.registry.{name}") or properties.get(name) or ""

    # The property may list several URLs; the first is used.
    url = url or properties.get("schema.registry.url", "").partition(",")[0].strip()
    if not url:
        return None
    source = given("basic.auth.credentials.source") or "USER_INFO"
    user, _, password = given("basic.auth.user.info").partition(":")
    if os.environ.get(USER_VARIABLE) or not (user and source.upper() == "USER_INFO"):
        return _with_credentials(url, given("bearer.auth.token"))
    return Registry(url, user=user, password=Secret(password))


def _of_ready_file() -> tuple[str, str | None]:
    """Return URL and token of the registry in the ready file that the environment names; the default URL if the ready file has no
    registry."""
    from ottla.client.ready_line import NotReady, read_ready_file

    path = os.environ.get(READY_FILE_VARIABLE)
    try:
        found = read_ready_file(Path(path)).get("schema_registry") if path else None
    except NotReady:
        found = None
    return (found["url"], found.get("token")) if isinstance(found, dict) else (DEFAULT_REGISTRY, None)
