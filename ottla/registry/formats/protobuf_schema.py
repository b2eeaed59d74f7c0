"""Protobuf schemas, compiled by ``protoc`` from the package grpcio-tools.

The compiler runs in a separate process, so that no schema can block the broker. Errors quote the compiler's messages.
"""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Final

import msgspec
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from ottla.registry.formats.parsed import MAX_REASONS, invalid
from ottla.registry.formats.protobuf_compatibility import unreadable
from ottla.registry.formats.protobuf_text import printed
from ottla.registry.schema_text import PROTOBUF, NamedText

COMPILE_TIMEOUT_S: Final = 20.0
"""Timeout of the compiler, in seconds; a schema takes about 0.2 s."""
_ROOT: Final = "schema.proto"
_MAX_PATH_CHARS: Final = 255
_WARNING: Final = re.compile(r"WARNING:|W\d{4} ")
"""Matches lines of the compiler's output that are not errors."""


class ProtobufSchema(msgspec.Struct, frozen=True, kw_only=True):
    """A parsed schema in Protobuf (implements `Parsed`)."""

    text: str
    file: Any
    """The compiled file (``FileDescriptorProto``)."""

    @property
    def normalized(self) -> str:
        return printed(self.file)

    def unreadable(self, writer: ProtobufSchema) -> list[str]:
        return unreadable(self.file, writer.file)[:MAX_REASONS]

    def serialized(self) -> str | None:
        return base64.b64encode(self.file.SerializeToString()).decode()


def parse_protobuf(text: str, references: Sequence[NamedText]) -> ProtobufSchema:
    """Compile a Protobuf schema. Raises `RegistryError`."""
    text = as_text(text)
    files = [(_checked_path(one.name), as_text(one.text)) for one in references]
    root = _unused_name({path.parts[0] for path, _ in files})
    with tempfile.TemporaryDirectory(prefix="ottla-protobuf-") as directory:
        imports = Path(directory, "imports")
        try:
            for name, content in [*files, (PurePosixPath(root), text)]:
                path = imports / name
                # Raise UnicodeEncodeError for surrogates in names, which file systems accept but the compiler does not.
                str(name).encode()
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        except UnicodeEncodeError:
            raise invalid(PROTOBUF, "a text or the name of a reference has a surrogate without its pair") from None
        except OSError as error:
            # The names of references may conflict: "a" and "a/b" need "a" as a file and as a directory.
            raise invalid(PROTOBUF, f"the reference {str(name)[:80]!r} cannot be a file: {error.strerror}") from None
        return ProtobufSchema(text=text, file=_compiled(imports, Path(directory, "descriptors"), root))


def as_text(text: str) -> str:
    """Return the text of a schema. Confluent's Python client sends a file descriptor in base64 instead."""
    try:
        raw = base64.b64decode(text, validate=True)
        file = FileDescriptorProto.FromString(raw)
    except (binascii.Error, ValueError, DecodeError):
        return text
    return printed(file) if raw and (file.message_type or file.enum_type or file.dependency or file.package) else text


def _compiled(imports: Path, out: Path, root: str) -> FileDescriptorProto:
    """Compile the file ``root`` in the directory ``imports``. The compiler writes descriptors to ``out``, which is outside of
    ``imports``, where references may have any name. Raises `RegistryError`."""
    command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"-I{imports}", f"--descriptor_set_out={out}", root]
    try:
        done = subprocess.run(command, capture_output=True, timeout=COMPILE_TIMEOUT_S, check=False, cwd=imports)
    except subprocess.TimeoutExpired:
        raise invalid(PROTOBUF, f"the compiler did not end within {COMPILE_TIMEOUT_S:.0f} s") from None
    if done.returncode or not out.exists():
        lines = done.stderr.decode(errors="replace").replace(f"{imports}/", "").replace(root, "schema").splitlines()
        said = " ".join(line for line in lines if not _WARNING.match(line))
        raise invalid(PROTOBUF, said or f"the compiler ended with {done.returncode}")
    return FileDescriptorSet.FromString(out.read_bytes()).file[-1]


def _unused_name(names: set[str]) -> str:
    """Return a file name for the schema that is not in ``names``, the top-level names of its imports."""
    name = _ROOT
    while name in names:
        name = f"_{name}"
    return name


def _checked_path(name: str) -> PurePosixPath:
    """Check the path of an import, which becomes a file in a temporary directory. Raises `RegistryError`."""
    path = PurePosixPath(name)
    parts_are_plain = all(part not in ("..", ".", "") and len(part) <= _MAX_PATH_CHARS for part in name.split("/"))
    if path.is_absolute() or not parts_are_plain or "\\" in name or "\0" in name or len(name) > 4 * _MAX_PATH_CHARS:
        raise invalid(PROTOBUF, f"the reference {name[:80]!r} is not the path of an import")
    return path
