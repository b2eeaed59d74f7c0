"""Chooses the log directory: the volume that a compose file mounts at a path of Kafka's images, or the image's own volume.

Kafka's images store records at different paths. A compose file for one of these images mounts its volume at that image's path. The
volume ``/data`` of ottla's image is then anonymous, and ``docker compose down`` does not keep it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Final, NamedTuple

from ottla.storage.identity import META_FILE, DirectoryError, check_not_kafkas
from ottla.storage.real_filesystem import RealFilesystem

DATA_DIRECTORY: Final = "/data"
VOLUMES: Final = {
    "/var/lib/kafka/data": "/var/lib/kafka/data",
    "/var/lib/kafka": "/var/lib/kafka/data",
    "/tmp/kraft-combined-logs": "/tmp/kraft-combined-logs",
    "/tmp/kafka-logs": "/tmp/kafka-logs",
    "/bitnami/kafka/data": "/bitnami/kafka/data",
    "/bitnami/kafka": "/bitnami/kafka/data",
    "/bitnami": "/bitnami/kafka/data",
}
"""Log directories by mount point: those of confluentinc/cp-kafka and apache/kafka, the defaults of ``log.dirs`` in Kafka's sample
settings, and those of bitnami/kafka. The Dockerfile creates the directories, because a new volume gets their owner."""
_MOUNT_POINT_FIELD: Final = 4


class ChosenDirectory(NamedTuple):
    """The log directory, and lines for people: why it was chosen, and why other volumes are not used."""

    path: str
    lines: list[str]


def mount_points(table: Path = Path("/proc/self/mountinfo")) -> frozenset[str]:
    """Return the mount points of this process (proc_pid_mountinfo(5)), or none if ``table`` cannot be read."""
    try:
        lines = table.read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(fields[_MOUNT_POINT_FIELD] for line in lines if len(fields := line.split()) > _MOUNT_POINT_FIELD)


def log_directory(mounted: Collection[str], root: str = "") -> ChosenDirectory:
    """Return the directory of the first mounted volume that can be used, else `DATA_DIRECTORY`. ``root`` is the prefix of all
    paths.

    A volume is not used if this user cannot write to it, if Apache Kafka has run on it, or if it is new although `DATA_DIRECTORY`
    has records: compose keeps the anonymous volume of a container that it recreates.
    """
    own = root + DATA_DIRECTORY
    lines = []
    for mount_point, path in VOLUMES.items():
        if mount_point not in mounted:
            continue
        directory = root + path
        reason = _unusable(directory)
        if reason is None and _is_formatted(own) and not _is_formatted(directory):
            reason = f"{directory} is new, and {own} has records"
        if reason is None:
            return ChosenDirectory(directory, [f"records are stored in {directory}, because a volume is mounted at {mount_point}"])
        lines.append(f"warning: the volume at {mount_point} is not used: {reason}")
    if lines:
        what_to_do = f"a volume at {DATA_DIRECTORY} keeps them, KAFKA_LOG_DIRS sets another directory"
        lines.append(f"warning: records are stored in {own}, and are lost with the container; {what_to_do}")
    return ChosenDirectory(own, lines)


def _is_formatted(directory: str) -> bool:
    # `os.access` returns False for a directory that this user may not search; `Path.exists` may raise PermissionError.
    return os.access(f"{directory}/{META_FILE}", os.F_OK)


def _unusable(directory: str) -> str | None:
    """Return why a directory cannot be used, or None. A missing directory can be used if it can be created."""
    existing = Path(directory)
    while not os.access(existing, os.F_OK) and existing != existing.parent:
        existing = existing.parent
    if not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        user = os.getuid()
        return f"user {user} cannot write to {existing}; give it to this user with chown {user}"
    try:
        check_not_kafkas(RealFilesystem(), directory)
    except DirectoryError as error:
        return str(error)
    return None
