"""Reads the metadata of a directory whose broker is its own controller, and accepts only damage that a starting broker would
truncate."""

from __future__ import annotations

from ottla.coordinator.metadata.cluster import ClusterState
from ottla.operations.log_ends import KnownEnds
from ottla.operations.metadata_log import replay_batch
from ottla.operations.segments import sound_batches
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.storage.filesystem import Filesystem
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError
from ottla.storage.segment import LOG_SUFFIX, file_name, parse_file_name


def read_own_metadata(fs: Filesystem, source: str, node_id: int, ends: KnownEnds) -> tuple[ClusterState, int]:
    """Return the cluster's state, and the size in bytes of an incomplete batch at the end of the metadata log.

    ``source`` is the data directory. Raises `DirectoryError`.
    """
    directory = f"{source}/{METADATA_DIRECTORY}"
    state = ClusterState(node_id)
    next_offset = torn_bytes = 0
    bases = sorted(base for n in fs.list_dir(directory) if (base := parse_file_name(n, LOG_SUFFIX)) is not None)
    if not bases:
        raise DirectoryError(f"{directory} has no segment of the metadata log")
    for base_offset in bases:
        path = f"{directory}/{file_name(base_offset, LOG_SUFFIX)}"
        with sound_batches(fs, path, max(base_offset, next_offset)) as sound:
            for _, header, raw in sound:
                try:
                    replay_batch(state, header, raw, is_strict=True)
                except DecodeError as error:
                    raise DirectoryError(f"{path}: {error}") from error
            if base_offset == bases[-1]:
                torn_bytes = ends.check_newest((METADATA_TOPIC, 0), sound)
            else:
                ends.check_older(sound)
        next_offset = sound.next_offset
    if METADATA_TOPIC in state.topics:
        # An earlier version of ottla let clients create a topic with the name of the metadata log. This topic is ignored.
        for removal in state.delete_topic(METADATA_TOPIC).records:
            state.replay(removal)
    return state, torn_bytes
