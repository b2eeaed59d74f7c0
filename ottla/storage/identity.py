"""Whose a log directory is: meta.properties (org.apache.kafka.metadata.properties.MetaProperties)."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.protocol.primitives import NO_UUID
from ottla.storage.checkpoints import parse_topic_id
from ottla.storage.filesystem import Filesystem, described

META_FILE = "meta.properties"
NOT_OURS = "something else has moved or removed the directory or its .lock"
"""Why a directory is given up by the broker that has locked it."""


class DirectoryError(Exception):
    """The directory cannot be used; the text is one line for a person."""


@dataclass(slots=True)
class Identity:
    """What meta.properties says."""

    cluster_id: str
    node_id: int
    directory_id: str

    @property
    def directory_uuid(self) -> bytes:
        """No uuid where the file has none, or what is none."""
        try:
            return parse_topic_id(self.directory_id)
        except ValueError:
            return NO_UUID


def read_identity(fs: Filesystem, path: str) -> Identity | None:
    """None for a directory that has none yet. Raises `DirectoryError`."""
    try:
        raw = fs.read_file(f"{path}/{META_FILE}")
    except OSError as error:
        raise DirectoryError(f"cannot use {path}: {described(error)}") from error
    if raw is None:
        return None
    try:
        lines = [line for line in raw.decode().splitlines() if "=" in line and not line.startswith("#")]
        properties = dict(line.split("=", 1) for line in lines)
        return Identity(properties["cluster.id"], int(properties["node.id"]), properties.get("directory.id", ""))
    except UnicodeDecodeError:
        reason = "it is no text"
    except (KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    raise DirectoryError(f"{path}/{META_FILE} is damaged ({reason}); restore it or start with another directory")


def write_identity(fs: Filesystem, path: str, identity: Identity) -> None:
    lines = [
        "#",
        f"cluster.id={identity.cluster_id}",
        f"directory.id={identity.directory_id}",
        f"node.id={identity.node_id}",
        "version=1",
    ]
    fs.write_file(f"{path}/{META_FILE}", ("\n".join(lines) + "\n").encode())
