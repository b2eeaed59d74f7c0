"""A start imports only the modules that it needs, because imports take most of the start's time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SERVE = """
import gc, json, sys
serve = ["ottla", "serve", "--listen", "127.0.0.1:0", "--control-port", "0", "--data-dir", sys.argv[1], "--log-format", "json"]
sys.argv = [*serve, *sys.argv[2:]]
gc_runs = []
gc.callbacks.append(lambda phase, _: gc_runs.append(phase))
from ottla import __main__
import ottla.cli.imports
before = ottla.cli.imports.import_packages
def import_packages():
    before()
    from ottla.broker.process import main
    def report_ready(*_):
        started = {"modules": sorted(sys.modules), "collections": gc_runs.count("start"), "enabled": gc.isenabled()}
        print(json.dumps(started), flush=True)
        raise SystemExit(0)
    main._report_ready = report_ready
ottla.cli.imports.import_packages = import_packages
__main__.main()
"""
LATER = {
    "aiokafka.client",
    "aiokafka.structs",
    "avro",
    "backports.zstd",
    "cbor2",
    "difflib",
    "fastavro",
    "google.protobuf",
    "grpc_tools",
    "h11",
    "http.server",
    "importlib.metadata",
    "jsonpath",
    "jsonschema",
    "lz4.frame",
    "ottla.client.schema_registry",
    "ottla.console",
    "ottla.registry",
    "packaging.version",
    "prometheus_client",
    "rich",
    "yaml",
}
"""Modules that earlier versions imported at the start, or that could easily be imported there by mistake."""
MAX_MODULES = 660
MAX_COLLECTIONS = 20
"""Upper bound on garbage collections. With Python's defaults, imports alone cause about a hundred of them, and none finds
garbage."""


def modules_at_start(data_dir: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-c", SERVE, str(data_dir), *options]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    lines = done.stdout.splitlines()
    assert lines, done.stderr
    started: dict[str, Any] = json.loads(lines[-1])
    return started


@pytest.mark.smoke
def test_broker_start_imports_only_needed_modules(tmp_path: Path) -> None:
    started = modules_at_start(tmp_path / "data")
    assert LATER & set(started["modules"]) == set()
    # structlog imports colorama if another package has installed it.
    assert len([module for module in started["modules"] if module.partition(".")[0] != "colorama"]) <= MAX_MODULES
    assert started["collections"] <= MAX_COLLECTIONS
    assert started["enabled"]


@pytest.mark.full
def test_console_and_registry_are_imported_at_the_start_only_if_enabled(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    enabled = modules_at_start(tmp_path / "data", "--console", "--schema-registry=0")
    # Without these names, the other test would accept an import of the console or registry under a new name.
    assert {"ottla.client.schema_registry", "ottla.console", "ottla.registry"} <= set(enabled["modules"])
