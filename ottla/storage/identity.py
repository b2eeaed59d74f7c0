"""The cluster and node that a log directory belongs to: meta.properties (org.apache.kafka.metadata.properties.MetaProperties)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ottla.protocol.primitives import NO_UUID
from ottla.protocol.uuids import parse_uuid, uuid_text
from ottla.storage.filesystem import Filesystem, described, sync_file, sync_names

META_FILE = "meta.properties"
METADATA_DIRECTORY = "__cluster_metadata-0"
"""The directory of the cluster's metadata log, in Apache Kafka and in ottla."""
BOOTSTRAP_FILE = "bootstrap.checkpoint"
"""The initial records of Apache Kafka's metadata log, in a directory that Kafka has not run on yet (BootstrapMetadata)."""
KRAFT_FILE = "quorum-state"
"""A file in the directory of the metadata log that only Apache Kafka writes."""
CONTROLLER_DIRECTORY = "controller"
"""The directory of the controller in a cluster's directory, next to the brokers' directories (``ottla serve --brokers``)."""
NOT_OURS = "another process has moved or removed the directory or its .lock"
"""The reason that a broker logs when it stops using its directory."""


class DirectoryError(Exception):
    """The directory cannot be used. The message is one line for a person."""


class DirectoryIdentity(msgspec.Struct):
    """The content of meta.properties."""

    cluster_id: str
    node_id: int
    directory_id: str

    @property
    def directory_uuid(self) -> bytes:
        """The directory id as 16 bytes; `NO_UUID` if the file's directory id is missing or not a UUID."""
        try:
            return parse_uuid(self.directory_id)
        except ValueError:
            return NO_UUID


def read_identity(fs: Filesystem, path: str) -> DirectoryIdentity | None:
    """Read meta.properties; None for a directory that has no such file yet. Raises `DirectoryError` for a damaged file."""
    try:
        raw = fs.read_file(f"{path}/{META_FILE}")
    except OSError as error:
        raise DirectoryError(f"cannot use {path}: {described(error)}") from error
    if raw is None:
        return None
    try:
        lines = [line for line in raw.decode().splitlines() if "=" in line and not line.startswith("#")]
        properties = dict(line.split("=", 1) for line in lines)
        return DirectoryIdentity(properties["cluster.id"], int(properties["node.id"]), properties.get("directory.id", ""))
    except UnicodeDecodeError:
        reason = "it is not text"
    except (KeyError, ValueError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
    raise DirectoryError(f"{path}/{META_FILE} is damaged ({reason}); restore it or start with another directory")


def check_not_kafkas(fs: Filesystem, path: str) -> None:
    """Raise `DirectoryError` for a directory that Apache Kafka has run on, or that was handed over to Kafka."""
    try:
        names, beside = fs.list_dir(f"{path}/{METADATA_DIRECTORY}"), fs.list_dir(path)
    except OSError:
        # Ignore the error: the code that opens the directory next reports it.
        return
    if KRAFT_FILE in names:
        reason = "was used by Apache Kafka"
    elif not names and BOOTSTRAP_FILE in beside:
        reason = "was handed over to Apache Kafka (ottla graduate --in-place)"
    else:
        return
    raise DirectoryError(
        f"{path} {reason}: start Apache Kafka on it, or import its topics into another directory with"
        f" ottla adopt --from {path} --data-dir OTHER"
    )


def check_not_a_clusters(fs: Filesystem, path: str) -> None:
    """Raise `DirectoryError` for the directory of a whole cluster: its nodes' directories would look like partitions."""
    try:
        is_clusters = fs.read_file(f"{path}/{CONTROLLER_DIRECTORY}/{META_FILE}") is not None
    except OSError:
        # Ignore the error: the code that opens the directory next reports it.
        return
    if is_clusters:
        raise DirectoryError(f"{path} has the data of a cluster; start the cluster with --brokers, or give another --data-dir")


def write_identity(fs: Filesystem, path: str, identity: DirectoryIdentity, *, is_synced: bool = False) -> None:
    """Write meta.properties. Raises OSError."""
    lines = [
        "#",
        f"cluster.id={identity.cluster_id}",
        f"directory.id={identity.directory_id}",
        f"node.id={identity.node_id}",
        "version=1",
    ]
    fs.write_file(f"{path}/{META_FILE}", ("\n".join(lines) + "\n").encode())
    if is_synced:
        sync_file(fs, f"{path}/{META_FILE}")
        sync_names(fs, path)


def check_formatted(fs: Filesystem, path: str) -> None:
    """Raise `DirectoryError` for a directory that is not formatted, if its node must join an existing cluster."""
    if read_identity(fs, path) is None:
        raise DirectoryError(
            f"{path} belongs to no cluster yet; give it a {META_FILE} for this node with the cluster.id of its controller"
        )


def identify(
    fs: Filesystem,
    path: str,
    node_id: int,
    new_uuid: Callable[[], bytes],
    cluster_id: str | None = None,
    *,
    is_synced: bool = False,
) -> tuple[DirectoryIdentity, bool]:
    """Return the identity of a directory, and whether the directory is new: no broker has run on it yet.

    A directory without an identity is assigned to node ``node_id``, in the cluster ``cluster_id`` or, if that is None, in a new
    cluster. With ``is_synced`` the new identity survives a power cut. Raises `DirectoryError` for a directory of another node, and
    for a directory whose identity cannot be read.
    """
    identity = read_identity(fs, path)
    if identity is not None:
        if identity.node_id != node_id:
            raise DirectoryError(
                f"{path} belongs to node {identity.node_id}, but node.id is {node_id}; give the directory of this node"
            )
        # A directory without a metadata log was only formatted, and counts as new.
        return identity, not fs.list_dir(f"{path}/{METADATA_DIRECTORY}")
    cluster_id = cluster_id or uuid_text(new_uuid())
    identity = DirectoryIdentity(cluster_id, node_id, uuid_text(new_uuid()))
    write_identity(fs, path, identity, is_synced=is_synced)
    return identity, True
