"""Encodes the key and the value of a produced record by schemas of the console's registry."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from ottla.console.actions.action import ActionClients, Name, option

MAX_VERSION: Final = (1 << 31) - 1
COLUMNS: Final = ("part", "subject", "version", "schema id", "type", "bytes")
"""The columns of `EncodedPart.row`."""


class SchemaChoice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A version of a subject; without a number the latest."""

    subject: Annotated[Name, msgspec.Meta(min_length=1)]
    version: Annotated[int, msgspec.Meta(ge=1, le=MAX_VERSION)] | None = None

    def text(self) -> str:
        """Return the choice as ``ottla produce`` parses it."""
        return self.subject if self.version is None else f"{self.subject}:{self.version}"


class EncodedPart(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes of a key or value. ``used`` is the version whose schema has encoded them, None for text as it is. ``row`` describes
    the encoded part in a preview."""

    data: bytes | None
    used: SchemaChoice | None = None
    row: list[object] = []


def encoded_part(part: str, text: str | None, chosen: SchemaChoice | None, to: ActionClients) -> EncodedPart:
    """Encode a text. ``part`` is ``key`` or ``value``. None stays None, and without a chosen schema the text stays as it is. Raises
    `ClientError`."""
    if text is None or chosen is None:
        return EncodedPart(data=None if text is None else text.encode())
    # Imported for the first encoded record, because most consoles have no registry.
    from ottla.client.schema_registry.encoding import version_encoder

    version, encoder = version_encoder(to.registry(), chosen.subject, chosen.version, part=part)
    data = encoder.encode(text.encode())
    return EncodedPart(
        data=data,
        used=SchemaChoice(subject=chosen.subject, version=version.version),
        row=[part, version.subject, version.version, version.id, version.kind, len(data)],
    )


def schema_options(key: SchemaChoice | None, value: SchemaChoice | None, to: ActionClients) -> list[str]:
    """Return the options of ``ottla produce`` for the chosen schemas."""
    if key is None and value is None:
        return []
    texts = [None if one is None else one.text() for one in (key, value)]
    url = to.registry().registry.url
    return [*option("--key-schema", texts[0]), *option("--value-schema", texts[1]), *option("--registry", url)]
