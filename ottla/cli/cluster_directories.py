"""The commands ``ottla cluster rebuild-controller`` and ``cluster grow``, which create directories of a cluster's nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from os.path import normpath
from pathlib import Path

from ottla.cli.directories import Bar, advancing, carefully, document
from ottla.client.wording import counted


def rebuild_controller(
    target: str, sources: list[str], node_id: int | None, *, as_json: bool = False, say: Callable[[str], None] = print
) -> int:
    """Create a controller's directory from directories of brokers. Returns exit code 0, or prints an error and returns 1."""
    from contextlib import ExitStack

    from ottla.broker.loop.env import RealEnv
    from ottla.operations.controller_rebuilding import broker_of, rebuild
    from ottla.operations.guards import locked_for_reading

    env = RealEnv()

    def work() -> int:
        with ExitStack() as locks:
            for directory in dict.fromkeys(map(broker_of, sources)):
                locks.enter_context(locked_for_reading(directory))
            rebuilt = rebuild(env.fs, target, sources, env.random_uuid(), env.now_ms(), node_id)
        if as_json:
            say(document({**dataclasses.asdict(rebuilt), "directory": env.fs.absolute(target)}))
            return 0
        source = rebuilt.source or "partition directories, because no broker has a copy of the metadata"
        say(f"cluster {rebuilt.cluster_id}, controller {rebuilt.node_id}, from {source}")
        contents = f"{counted(rebuilt.topics, 'topic')}, {counted(rebuilt.partitions, 'partition')}"
        say(f"  {contents}, metadata up to offset {rebuilt.end_offset}")
        for line in rebuilt.unknown:
            say(f"  unknown: {line}")
        for note in rebuilt.notes:
            say(f"  note: {note}")
        say(
            f"{target} is the controller's new directory; start the controller there with node.id={rebuilt.node_id}, then the"
            " brokers"
        )
        return 0

    return carefully(work)


def grow(
    directory: str, brokers: int, replication_factor: int, *, as_json: bool = False, say: Callable[[str], None] = print
) -> int:
    """Convert the directory of a single broker to the directory of a cluster. Returns exit code 0, or prints an error and
    returns 1."""
    from ottla.broker.loop.env import RealEnv
    from ottla.operations.cluster_growth import data_bytes, grow
    from ottla.operations.guards import locked
    from ottla.storage.identity import DirectoryError

    env, directory = RealEnv(), normpath(directory)

    def work() -> int:
        if not Path(directory).is_dir():
            raise DirectoryError(f"{directory} is not a directory; give the data directory of a stopped broker")
        with locked(env.fs, directory):
            on_read = advancing(Bar("reading"), data_bytes(env.fs, directory))
            grown = grow(env.fs, directory, brokers, replication_factor, env.random_uuid, env.now_ms(), on_read)
        if as_json:
            say(document({**dataclasses.asdict(grown), "directory": env.fs.absolute(directory)}))
            return 0
        if grown.was_interrupted:
            say("the interrupted growth is now complete, with the options of the first command")
        say(f"cluster {grown.cluster_id}, brokers 1 to {grown.brokers}; broker 1 has the data")
        partitions, replicas = counted(grown.partitions, "partition"), counted(grown.replication_factor, "replica")
        say(f"  {counted(grown.topics, 'topic')}, {partitions} with {replicas} each")
        for note in grown.notes:
            say(f"  note: {note}")
        say(f"start the cluster with: ottla serve --data-dir {directory} --brokers {grown.brokers}")
        return 0

    return carefully(work)
