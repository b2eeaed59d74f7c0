"""Runs one broker in this process until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path

import structlog

from ottla.broker import logs
from ottla.broker.broker import BrokerServer
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.first_topic import FirstTopic
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.env import RealEnv, process_id
from ottla.broker.inherited import Inherited, ServedMetrics
from ottla.broker.ready_file import ReadyFile
from ottla.broker.serving import Serving
from ottla.broker.steering import Door, Steering
from ottla.storage.identity import DirectoryError
from ottla.storage.memory import keep_freed_memory

GC_THRESHOLDS = (10_000, 50, 100)
"""The thresholds of Python's garbage collector. They are high, because a broker makes few reference cycles."""
NOT_STEERED = Steering()
SWITCH_INTERVAL_S = 0.001
"""How long another thread may keep Python's interpreter lock while the event loop waits for it, in s."""


def _run(serving: Coroutine[None, None, None]) -> None:
    """Run on uvloop's event loop where uvloop is installed, else on asyncio's own."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(serving)
    else:
        uvloop.run(serving)


def _report_ready(broker: BrokerServer, ready_file: ReadyFile, door: Door | None, started_lines: Sequence[str]) -> None:
    ready = {
        "event": "ready",
        "bootstrap": broker.bootstrap,
        "listening": broker.addresses.bound,
        "pid": process_id(),
        "cluster_id": broker.cluster_id,
        "data_dir": broker.directory.absolute_path,
    }
    if broker.metrics_url is not None:
        ready["metrics"] = broker.metrics_url
    if door is not None:
        ready["control"] = {"url": door.url, "token": door.token}
    line = json.dumps(ready)
    ready_file.write(line + "\n", is_secret=door is not None)
    try:
        print(_for_people(broker, door) if sys.stdout.isatty() else line, *started_lines, sep="\n", flush=True)
    except OSError as error:
        # Nobody reads it, or the disk behind it is full.
        error.filename = "stdout"
        raise


def _for_people(broker: BrokerServer, door: Door | None) -> str:
    lines = [f"ottla listens at {broker.bootstrap}", f"its data lies in {broker.directory.absolute_path}"]
    if broker.metrics_url is not None:
        lines.append(f"its metrics are at {broker.metrics_url}")
    if door is not None:
        lines.append(f"it is steered at {door.url} with the token {door.token}")
    return "\n".join([*lines, f"Ctrl-C, or kill {process_id()}, stops it; started again it has all its data"])


def _serve_metrics(host: str, port: int) -> ServedMetrics:
    # Imported only where metrics are served, because the import is slow.
    from ottla.broker.metrics.server import MetricsServer

    return MetricsServer(host, port)


async def _serve(
    config: BrokerConfig,
    features: Mapping[str, int],
    ready_file: ReadyFile,
    first_topics: Sequence[FirstTopic] = (),
    steering: Steering = NOT_STEERED,
    started_lines: Sequence[str] = (),
) -> None:
    ready_file.check()
    env = RealEnv(steering.clock)

    def new_broker(inherited: Inherited | None) -> BrokerServer:
        return BrokerServer(
            env,
            config,
            features,
            serve_metrics=_serve_metrics,
            inherited=inherited,
            interception=steering.interception,
            transaction_listener=steering.transaction_listener,
            first_topics=first_topics,
        )

    serving = Serving(env, new_broker)
    serving.broker.directory.acquire()
    # Remove the file of a killed broker. As this broker has the directory's lock, the file is not that of a running broker.
    ready_file.remove()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.stop_wanted.set)
    if steering.owner is not None:

        def end() -> None:
            loop.call_soon_threadsafe(serving.stop_wanted.set)

        steering.owner.watch(end)
    await serving.start()
    # The objects that the start has made live as long as the process, too.
    gc.freeze()
    door = None
    try:
        door = steering.open_door(serving) if steering.open_door is not None else None
        _report_ready(serving.broker, ready_file, door, started_lines)
        await serving.stop_wanted.wait()
    finally:
        if door is not None:
            door.close()
        ready_file.remove()
        await serving.stop()
    if serving.failure is not None:
        raise serving.failure


def run(
    config: BrokerConfig,
    features: Mapping[str, int],
    *,
    ready_file: Path | None = None,
    as_json: bool = True,
    log_level: str = "info",
    warnings: Mapping[str, str | None] | None = None,
    first_topics: Sequence[FirstTopic] = (),
    steering: Steering = NOT_STEERED,
    started_lines: Sequence[str] = (),
) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code: 0 after a clean stop, 1 where the broker could not start.

    ``warnings`` maps settings without effect to the setting that was probably meant. ``first_topics`` are created at the start.
    ``started_lines`` are printed after the ready line, for those who wait for Kafka's log lines (`ottla.container`).
    """
    # What imports have made lives as long as the process: keep the collector, which was off till here (`ottla.__main__`), from
    # walking it again and again.
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    logs.configure(as_json=as_json, level=log_level)
    if steering.begin is not None:
        steering.begin()
    keep_freed_memory()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    log = structlog.get_logger("config")
    for name, meant in (warnings or {}).items():
        log.warning("setting_without_effect", name=name, **({"did_you_mean": meant} if meant else {}))
    try:
        _run(_serve(config, features, ReadyFile(ready_file), first_topics, steering, started_lines))
    except (DirectoryError, ConfigError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        print(f"ottla: cannot start: {where}{error.strerror or error}", file=sys.stderr)
        return 1
    finally:
        if steering.owner is not None:
            steering.owner.ended()
    return 0
