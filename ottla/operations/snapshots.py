"""Snapshots: copies of the data directory of a stopped broker, for tests that start from an earlier state.

A snapshot is a data directory after a clean shutdown, with a manifest that has the size and checksum of each file, so that a
restore detects every file that has changed or is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from zlib import crc32

import msgspec

from ottla.operations.copying import copy
from ottla.storage.filesystem import Filesystem, sync_file, sync_names
from ottla.storage.identity import META_FILE, DirectoryError
from ottla.storage.last_stop import CLEAN_FILE
from ottla.storage.replacement import is_broker_data

MANIFEST_FILE = "ottla-snapshot.json"
VERSION = 1
"""The version of the manifest. It is raised when earlier versions of ottla cannot read the snapshot's files."""
_PATH = re.compile(r"([^/\0]+)(/[^/\0]+)?")


class _Version(msgspec.Struct):
    version: int


class Manifest(msgspec.Struct):
    """The manifest of a snapshot. ``files`` has the size in bytes and the CRC-32 of each file by its path in the snapshot."""

    version: int
    node_id: int
    files: dict[str, tuple[int, int]]


def take_snapshot(fs: Filesystem, directory: str, target: str, node_id: int, *, is_synced: bool) -> None:
    """Copy the data of node ``node_id`` to ``target``, which does not exist and is created atomically.

    Raises `DirectoryError` for a directory without a clean shutdown, and OSError.
    """
    growing = growing_snapshot(target)
    try:
        _fill(fs, directory, growing, node_id, is_synced=is_synced)
        fs.rename(growing, target)
        if is_synced:
            sync_names(fs, target)
    except Exception:
        with suppress(OSError):
            fs.remove_dir(growing)
        raise


def growing_snapshot(target: str) -> str:
    """Return the temporary directory of a snapshot. The next snapshot of this name removes leftovers of a killed process."""
    return f"{target}.ottla-partial"


def _fill(fs: Filesystem, directory: str, growing: str, node_id: int, *, is_synced: bool) -> None:
    if fs.is_dir(growing):
        fs.remove_dir(growing)
    fs.make_dir(growing)
    manifest = Manifest(VERSION, node_id, {})
    for path in _files(fs, directory):
        manifest.files[path] = _copy(fs, f"{directory}/{path}", growing, path, is_synced=is_synced)
    if CLEAN_FILE not in manifest.files:
        raise DirectoryError("the broker could not write all of its data; its log names the files")
    fs.write_file(f"{growing}/{MANIFEST_FILE}", msgspec.json.encode(manifest))
    if is_synced:
        sync_file(fs, f"{growing}/{MANIFEST_FILE}")
        _sync_directories(fs, growing, manifest)


def _files(fs: Filesystem, directory: str) -> Iterator[str]:
    """Yield the paths, relative to the directory, of all files that a broker has created there."""
    for name in filter(is_broker_data, fs.list_dir(directory)):
        if fs.is_dir(f"{directory}/{name}"):
            yield from (f"{name}/{file}" for file in fs.list_dir(f"{directory}/{name}"))
        else:
            yield name


def _copy(fs: Filesystem, source: str, target: str, path: str, *, is_synced: bool) -> tuple[int, int]:
    """Copy a file to the directory ``target``. Returns its size in bytes and its CRC-32."""
    parent, separator, _ = path.rpartition("/")
    if separator:
        fs.make_dir(f"{target}/{parent}")
    size_bytes = checksum = 0
    for piece in copy(fs, source, f"{target}/{path}", is_synced=is_synced):
        size_bytes, checksum = size_bytes + len(piece), crc32(piece, checksum)
    return size_bytes, checksum


def _sync_directories(fs: Filesystem, directory: str, manifest: Manifest) -> None:
    for parent in {path.rpartition("/")[0] for path in manifest.files} - {""}:
        sync_names(fs, f"{directory}/{parent}")
    sync_names(fs, directory)


def restore_snapshot(fs: Filesystem, source: str, target: str, node_id: int, *, is_synced: bool) -> None:
    """Copy a snapshot to ``target``, except for the file with the cluster id.

    Raises OSError, and `DirectoryError` for a snapshot that is damaged, or not of node ``node_id``.
    """
    manifest = _read_manifest(fs, source)
    if manifest.node_id != node_id:
        raise DirectoryError(f"{source} is a snapshot of node {manifest.node_id}, and node.id is {node_id}")
    for path, expected in manifest.files.items():
        parts = _PATH.fullmatch(path)
        if parts is None or not is_broker_data(parts[1]) or parts[2] == "/..":
            raise _damaged(source, f"{MANIFEST_FILE} names {path}, which is not a file of a broker")
        if path == META_FILE:
            continue
        if _copy(fs, f"{source}/{path}", target, path, is_synced=is_synced) != expected:
            raise _damaged(source, f"{path} does not have the size and checksum that {MANIFEST_FILE} records")
    if is_synced:
        _sync_directories(fs, target, manifest)


def _read_manifest(fs: Filesystem, source: str) -> Manifest:
    raw = fs.read_file(f"{source}/{MANIFEST_FILE}")
    if raw is None:
        raise DirectoryError(f"{source} is not a snapshot: it has no {MANIFEST_FILE}")
    try:
        version = msgspec.json.decode(raw, type=_Version).version
        if version != VERSION:
            raise DirectoryError(
                f"{source} was taken by another version of ottla: it has version {version}, and {VERSION} is supported"
            )
        manifest = msgspec.json.decode(raw, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _damaged(source, f"{MANIFEST_FILE}: {error}") from error
    if CLEAN_FILE not in manifest.files:
        raise _damaged(source, f"{MANIFEST_FILE} has no {CLEAN_FILE}")
    return manifest


def _damaged(source: str, reason: str) -> DirectoryError:
    return DirectoryError(f"{source} is damaged ({reason}); take a new snapshot")
