"""Decodes and encodes messages of a registered Protobuf schema, whose classes are built from file descriptors at run time. The
module needs the package protobuf.

The registry converts a schema to a file descriptor (the query parameter ``format=serialized``), so that a client needs no compiler.
"""

from __future__ import annotations

import base64
import binascii
import importlib
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from ottla.client.errors import ClientError
from ottla.client.schema_registry.framing import FIRST_MESSAGE, message_indexes
from ottla.client.schema_registry.registry_client import RegistryClient

_STANDARD: Final = "google/protobuf/"
"""The import directory of Protobuf's own files, which are not in the registry."""
_ROOT: Final = "ottla-root.proto"


class ProtobufMessages:
    """The message types of one schema. The constructor raises `ClientError` if the registry does not return a file descriptor."""

    def __init__(self, schema_id: int, client: RegistryClient) -> None:
        schema = client.schema(schema_id, serialized=True)
        if schema is None:
            raise ClientError(f"the registry does not know schema {schema_id}")
        self._pool = DescriptorPool()
        self._added: set[str] = set()
        files = {name: _file(one.text) for name, one in client.referenced(schema, serialized=True).items()}
        root = _file(schema.text)
        for name, file in files.items():
            self._add(name, file)
        self._add(_ROOT, root)
        self._root = self._pool.FindFileByName(_ROOT)
        self._names = [message.name for message in root.message_type]

    def _add(self, name: str, file: FileDescriptorProto) -> None:
        """Add a Protobuf file, under the name by which other files import it, after its standard imports."""
        if name in self._added:
            return
        self._added.add(name)
        for imported in file.dependency:
            if imported.startswith(_STANDARD):
                module = importlib.import_module(f"{imported.removesuffix('.proto').replace('/', '.')}_pb2")
                self._add(imported, FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))
        file.name = name
        self._pool.Add(file)

    def _message(self, indexes: list[int]) -> Any:
        """Return a message class: the first index selects a message of the file, further indexes nested messages. Raises
        IndexError."""
        first, *nested = indexes
        descriptor = self._root.message_types_by_name[self._names[_checked(first)]]
        for index in nested:
            descriptor = descriptor.nested_types[_checked(index)]
        return GetMessageClass(descriptor)

    def message(self, payload: bytes) -> Any:
        """Decode the bytes after a value's header to a message. Raises ValueError, IndexError or ``DecodeError``."""
        indexes, value = message_indexes(payload)
        return self._message(indexes).FromString(value)

    def plain(self, message: Any) -> Any:
        """Convert a message to JSON-like values. Raises ValueError, for example for a year that JSON's timestamps do not have."""
        return json_format.MessageToDict(message, preserving_proto_field_name=True, descriptor_pool=self._pool)

    def read(self, payload: bytes) -> Any:
        """Decode the bytes after a value's header to JSON-like values. Raises ValueError, IndexError or ``DecodeError``."""
        return self.plain(self.message(payload))

    def written(self, value: Any) -> bytes:
        """Encode a JSON-like value as the schema's first message. Raises ``json_format.ParseError``."""
        message = json_format.ParseDict(value, self._message([0])(), descriptor_pool=self._pool)
        return FIRST_MESSAGE + bytes(message.SerializeToString())


def _checked(index: int) -> int:
    if index < 0:
        raise IndexError(index)
    return index


def _file(text: str) -> FileDescriptorProto:
    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        raise ClientError(
            "the registry does not convert Protobuf schemas to file descriptors (format=serialized), so values cannot be decoded"
        ) from None
