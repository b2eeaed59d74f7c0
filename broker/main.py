"""Runs one broker in this process until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import structlog
import uvloop

from broker import logs
from broker.broker import Broker
from broker.config.definitions import ConfigError
from broker.config.settings import BrokerConfig
from broker.env import RealEnv, process_id
from storage.log_dir import DirectoryError
from storage.memory import keep_freed_memory

GC_THRESHOLD = 50_000


def _tell_ready(broker: Broker, ready_file: Path | None) -> None:
    ready = {
        "event": "ready",
        "bootstrap": broker.bootstrap,
        "pid": process_id(),
        "cluster_id": broker.cluster_id,
        "data_dir": broker.directory.absolute_path,
    }
    if broker.metrics_url is not None:
        ready["metrics"] = broker.metrics_url
    line = json.dumps(ready)
    print(line, flush=True)
    if ready_file is not None:
        ready_file.write_text(line + "\n")


async def _serve(config: BrokerConfig, features: Mapping[str, int], ready_file: Path | None) -> None:
    broker = Broker(RealEnv(), config, features)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await broker.start()
    # What start-up has made lives as long as the process: keep the collector from walking it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, 20, 100)
    _tell_ready(broker, ready_file)
    await stop.wait()
    await broker.stop()


def run(
    config: BrokerConfig,
    features: Mapping[str, int],
    *,
    ready_file: Path | None = None,
    as_json: bool | None = None,
    log_level: str = "info",
    warnings: list[str] | None = None,
) -> int:
    """Serve until told to stop. The exit code: 0 after a clean stop, 1 when the broker could not start."""
    logs.configure(as_json=not sys.stderr.isatty() if as_json is None else as_json, level=log_level)
    keep_freed_memory()
    log = structlog.get_logger("config")
    for name in warnings or []:
        log.warning("setting_without_effect", name=name)
    try:
        uvloop.run(_serve(config, features, ready_file))
    except (DirectoryError, ConfigError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"ottla: cannot start: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0
