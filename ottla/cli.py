"""The command line: ``ottla serve``, ``ottla health``, ``ottla graduate``, ``ottla adopt``,
``ottla audit``, ``ottla pipeline``, ``ottla demo``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ottla import rooms


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ottla", description="A small broker that speaks Kafka.")
    commands = parser.add_subparsers(dest="command", required=True)

    serve = commands.add_parser("serve", help="run a broker in the foreground until SIGTERM or Ctrl-C")
    serve.add_argument("properties", nargs="?", type=Path, help="a server.properties file")
    serve.add_argument("--listen", metavar="HOST:PORT", help="where to listen; port 0 picks a free one")
    serve.add_argument("--data-dir", metavar="DIR", help="where the data lies (log.dirs)")
    serve.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any server.properties key")
    serve.add_argument(
        "--feature", action="append", default=[], metavar="NAME=LEVEL", help="a feature level, e.g. transaction.version=1"
    )
    serve.add_argument("--metrics-port", type=int, metavar="PORT", help="serve Prometheus metrics there (ottla.metrics.port)")
    serve.add_argument("--ready-file", type=Path, metavar="FILE", help="written once requests are answered")
    serve.add_argument("--log-format", choices=("auto", "json", "console"), default="auto")
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info")

    health = commands.add_parser("health", help="exit 0 if a broker answers, else 1")
    health.add_argument("--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    health.add_argument("--timeout-s", type=float, default=5.0)

    graduate = commands.add_parser("graduate", help="turn a data directory into one that Apache Kafka starts on")
    graduate.add_argument("--data-dir", required=True, metavar="DIR", help="of a stopped broker; nothing is written into it")
    where = graduate.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="KAFKA_DIR", help="made, with a copy of everything")
    where.add_argument("--in-place", action="store_true", help="hand DIR itself over, without a copy")
    where.add_argument("--dry-run", action="store_true", help="check and report only")

    adopt = commands.add_parser("adopt", help="take topics of an Apache Kafka data directory over")
    adopt.add_argument("--from", dest="source", required=True, metavar="KAFKA_DIR", help="log.dirs, a copy of it, or one partition")
    adopt.add_argument("--data-dir", required=True, metavar="DIR", help="of a stopped broker, or a new one")
    adopt.add_argument("--topic", action="append", default=[], metavar="T", help="only this one; may be given again")

    audit = commands.add_parser(
        "audit", help="exit 0 if every transaction in a data directory is whole, else name those that are not"
    )
    audit.add_argument("directory", metavar="DIR", help="ottla's or Apache Kafka's; nothing is written into it")

    # Its own parser reads what follows.
    commands.add_parser("pipeline", help="Spark jobs, exactly once from topic to topic")

    demo = commands.add_parser("demo", help="run the shop with injected failures and prove the result")
    demo.add_argument("--port", type=int, default=9092)
    demo.add_argument("--purchases", type=int, default=5_000)
    demo.add_argument("--data-dir", metavar="DIR", help="kept after the demo; default is a temporary directory")
    return parser


def _serve(options: argparse.Namespace) -> int:
    rooms.enter()
    from broker.config.definitions import ConfigError
    from broker.config.settings import load
    from broker.main import run

    extra: dict[str, str] = {}
    if options.listen:
        extra["listeners"] = f"PLAINTEXT://{options.listen}"
    if options.data_dir:
        extra["log.dirs"] = options.data_dir
    if options.metrics_port is not None:
        extra["ottla.metrics.port"] = str(options.metrics_port)
    try:
        config, ignored = load(options.properties, os.environ, options.set, extra)
        features = _features(options.feature)
    except (ConfigError, ValueError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    as_json = None if options.log_format == "auto" else options.log_format == "json"
    return run(
        config,
        features,
        ready_file=options.ready_file,
        as_json=as_json,
        log_level=options.log_level,
        warnings=[*config.without_effect(), *ignored],
    )


def _features(texts: list[str]) -> dict[str, int]:
    from broker.cluster import SUPPORTED_FEATURES

    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not level.isdigit():
            raise ValueError(f"--feature {text!r}: NAME=LEVEL is wanted")
        low, high = SUPPORTED_FEATURES.get(name, (0, -1))
        if not low <= int(level) <= high:
            known = ", ".join(f"{n} {a}-{b}" for n, (a, b) in sorted(SUPPORTED_FEATURES.items()))
            raise ValueError(f"--feature {text!r} is not supported; there are {known}")
        levels[name] = int(level)
    return levels


def _health(options: argparse.Namespace) -> int:
    from ottla.health import answers

    host, _, port = options.bootstrap.rpartition(":")
    if answers(host, int(port), options.timeout_s):
        print(f"{options.bootstrap} answers")
        return 0
    print(f"{options.bootstrap} does not answer", file=sys.stderr)
    return 1


def _demo(options: argparse.Namespace) -> int:
    try:
        from ottla.demo.run import run
    except ImportError as error:
        print(f"ottla: the demo needs {error.name}; install ottla[demo]", file=sys.stderr)
        return 1
    return run(port=options.port, purchases=options.purchases, data_dir=options.data_dir)


def _graduate(options: argparse.Namespace) -> int:
    from ottla.directories import graduate

    return graduate(options.data_dir, options.to, dry_run=options.dry_run, in_place=options.in_place)


def _adopt(options: argparse.Namespace) -> int:
    from ottla.directories import adopt

    return adopt(options.source, options.data_dir, options.topic)


def _audit(options: argparse.Namespace) -> int:
    from ottla.directories import audit

    return audit(options.directory)


def _pipeline(arguments: list[str]) -> int:
    rooms.enter()
    try:
        if arguments[:1] == ["demo"]:
            from ottla.demo.pipeline import run

            return run(arguments[1:])
        from pipeline.cli import main
    except ModuleNotFoundError as missing:
        print(f"ottla pipeline needs {missing.name}: pip install 'ottla[pipeline]'", file=sys.stderr)
        return 1
    return main(arguments)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["pipeline"]:
        return _pipeline(arguments[1:])
    options = _parser().parse_args(arguments)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "serve": _serve,
        "health": _health,
        "graduate": _graduate,
        "adopt": _adopt,
        "audit": _audit,
        "demo": _demo,
    }
    return commands[options.command](options)
