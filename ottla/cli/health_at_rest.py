"""``ottla health --data-dir``: checks the directory of a stopped broker, and lists its stray directories."""

from __future__ import annotations

import click

from ottla.cli.commands import Refused
from ottla.cli.output import printable, show_json
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.guards import locked_for_reading
from ottla.operations.kafka_metadata import read_metadata
from ottla.operations.stray_reports import STRAYS_NAMED, StraySummary, summary
from ottla.storage.filesystem import Filesystem, described
from ottla.storage.identity import DirectoryError, DirectoryIdentity, read_identity
from ottla.storage.real_filesystem import RealFilesystem
from ottla.storage.stray_directories import strays_in


def check(directory: str, *, as_json: bool) -> int:
    """Print the result and return exit code 0. Raises `Refused` with exit code 1 for a directory that a broker could not use."""
    try:
        identity, strays = _examined(RealFilesystem(read_only=True), directory)
    except (DirectoryError, OSError) as error:
        reason = described(error)
        if as_json:
            show_json({"data_dir": directory, "healthy": False, "reason": reason})
            return 1
        raise Refused(reason, exit_code=1) from None
    if as_json:
        show_json({"data_dir": directory, "healthy": True, "node_id": identity.node_id, "warnings": strays.lines})
        return 0
    click.echo(f"{printable(directory)} is the directory of node {identity.node_id}, which is stopped")
    for line in strays.lines:
        click.echo(f"warning: {printable(line)}")
    return 0


def _examined(fs: Filesystem, directory: str) -> tuple[DirectoryIdentity, StraySummary]:
    """Read identity and stray directories. Raises OSError, and `DirectoryError` if a broker uses the directory, or meta.properties
    is missing or damaged."""
    with locked_for_reading(directory):
        identity = read_identity(fs, directory)
        if identity is None:
            raise DirectoryError(f"{directory} is not a data directory: it has no meta.properties")
        strays = strays_in(fs, directory)
        state = read_metadata(fs, directory, []).state if strays else ClusterState(identity.node_id)
        size_bytes = sum(stray.size_bytes or 0 for stray in strays)
        return identity, summary(strays[:STRAYS_NAMED], len(strays), size_bytes, state, fs.absolute(directory))
