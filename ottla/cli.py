"""The command line: ``ottla serve``, ``ottla health``, ``ottla graduate``, ``ottla adopt``,
``ottla audit``, ``ottla pipeline``, ``ottla demo``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ottla import __version__
from ottla.arguments import address, count, listener, port, seconds
from ottla.process import Owner, importing_without, interrupt_on_ctrl_c, open_standard_streams

if TYPE_CHECKING:
    from ottla.broker.serving import Serving
    from ottla.control.clock import ManualClock
    from ottla.control.door import ControlDoor

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
READY_FILE_VARIABLE = "OTTLA_READY_FILE"
"""Names the ready file for ``serve`` and ``health`` alike, so that a container's health check asks the port in use."""
STILL_DEFAULTS = {f"group.{kind}.assignment.interval.ms": "0" for kind in ("consumer", "share", "streams")}
"""With a clock that stands still a member would wait for ever until it is given anything."""
USAGE_EXIT = 2
INTERRUPTED_EXIT = 130
"""What shells give a command that Ctrl-C has ended."""

SERVE = """Runs one broker in the foreground until SIGTERM or Ctrl-C, and ends with exit code 0.

It prints one JSON line on stdout once it answers requests, with the address for clients ("bootstrap"), the addresses it
listens on, its process id and its data directory; log lines go to stderr."""

SERVE_END = """Settings are Kafka's server.properties keys. Later sources win: the file, KAFKA_* variables by the rule of
Kafka's image (KAFKA_NUM_PARTITIONS=3 is num.partitions=3), --set, the other flags. An unknown key is refused with a
suggestion, an unknown KAFKA_* variable is named in a warning, as is a key that is known to Kafka and changes nothing here."""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE_EXIT, f"{self.prog}: {message}; see {self.prog} --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ottla", description="A small broker that speaks Kafka.")
    parser.add_argument("--version", action="version", version=f"ottla {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_serve(commands)

    health = commands.add_parser(
        "health",
        help="exit 0 if a broker answers and its log directory is well, else 1",
        description="Exits with 0 if a broker answers requests and its log directory is well, else with 1 and one line why.",
    )
    where = health.add_mutually_exclusive_group()
    where.add_argument("--bootstrap", type=address, metavar="HOST:PORT", help=f"the broker (default: {DEFAULT_BOOTSTRAP})")
    where.add_argument(
        "--ready-file",
        type=Path,
        default=os.environ.get(READY_FILE_VARIABLE) or None,
        metavar="FILE",
        help=f"the broker that wrote it, at the address it listens on (default: ${READY_FILE_VARIABLE})",
    )
    health.add_argument("--timeout-s", type=seconds, default=5.0, metavar="S", help="how long to wait (default: 5)")

    graduate = commands.add_parser("graduate", help="turn a data directory into one that Apache Kafka starts on")
    graduate.add_argument("--data-dir", required=True, metavar="DIR", help="of a stopped broker; nothing is written into it")
    target = graduate.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", metavar="KAFKA_DIR", help="made, with a copy of everything")
    target.add_argument("--in-place", action="store_true", help="hand DIR itself over, without a copy")
    target.add_argument("--dry-run", action="store_true", help="check and report only")
    graduate.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a level other than the directory's own, e.g. metadata.version=30 for Apache Kafka 4.3; may be given again",
    )

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
    demo.add_argument("--port", type=port, default=9092, help="where its broker listens on 127.0.0.1 (default: 9092)")
    demo.add_argument("--purchases", type=count, default=5_000, metavar="N", help="how many the shop handles (default: 5000)")
    demo.add_argument("--data-dir", metavar="DIR", help="kept after the demo (default: a temporary directory)")
    return parser


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    serve = commands.add_parser(
        "serve",
        help="run a broker in the foreground until SIGTERM or Ctrl-C",
        description=SERVE,
        epilog=SERVE_END,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    serve.add_argument("properties", nargs="?", type=Path, metavar="FILE", help="a server.properties file")
    serve.add_argument(
        "--listen",
        type=listener,
        metavar="HOST:PORT",
        help=f"where to listen; port 0 picks a free one (default: {DEFAULT_BOOTSTRAP})",
    )
    serve.add_argument("--data-dir", metavar="DIR", help="where the data lies (default: .ottla/data)")
    serve.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any server.properties key; may be given again"
    )
    serve.add_argument(
        "--feature",
        action="append",
        default=[],
        metavar="NAME=LEVEL",
        help="a feature level, e.g. transaction.version=1; may be given again",
    )
    serve.add_argument(
        "--metrics-port", type=port, metavar="PORT", help="serve Prometheus metrics there on 127.0.0.1 (default: none are served)"
    )
    serve.add_argument(
        "--control-port",
        type=port,
        metavar="PORT",
        help="open a door there on 127.0.0.1 by which tests steer the broker (default: there is none)",
    )
    serve.add_argument(
        "--clock",
        default="machine",
        metavar="CLOCK",
        help="manual: it stands still until it is moved through the control door (default: machine)",
    )
    # For a program that starts a broker for itself, as `ottla.Broker` does.
    serve.add_argument("--owner-pid", type=int, help=argparse.SUPPRESS)
    serve.add_argument("--owned-directory", type=Path, help=argparse.SUPPRESS)
    serve.add_argument(
        "--ready-file",
        type=Path,
        default=os.environ.get(READY_FILE_VARIABLE) or None,
        metavar="FILE",
        help=f"holds the JSON line while requests are answered, removed at the stop (default: ${READY_FILE_VARIABLE}, else none)",
    )
    serve.add_argument(
        "--log-format", choices=("auto", "json", "console"), default="auto", help="auto is console on a terminal, else json"
    )
    serve.add_argument("--log-level", choices=("debug", "info", "warning", "error"), default="info", help="(default: info)")


def _serve(options: argparse.Namespace) -> int:
    with importing_without("rich"):
        import structlog  # noqa: F401
    from ottla.broker.config.definitions import ConfigError
    from ottla.broker.config.settings import BrokerConfig
    from ottla.broker.config.sources import load, variable_near
    from ottla.broker.main import run

    extra: dict[str, str] = {}
    if options.listen is not None:
        extra["listeners"] = f"PLAINTEXT://{options.listen}"
    if options.data_dir is not None:
        extra["log.dirs"] = options.data_dir
    if options.metrics_port is not None:
        extra["ottla.metrics.port"] = str(options.metrics_port)
    if options.control_port is not None:
        extra["ottla.control.port"] = str(options.control_port)
    try:
        config, ignored = load(options.properties, os.environ, options.set, extra)
        features = _features(options.feature)
        clock = _clock(options.clock)
        if clock is not None:
            config = BrokerConfig({**STILL_DEFAULTS, **config.given})
        if clock is not None and config.settings.ottla_control_port is None:
            raise ValueError("--clock manual: only the control door moves it; give a --control-port")
    except (ConfigError, ValueError) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    as_json = None if options.log_format == "auto" else options.log_format == "json"
    owner = None
    if options.owner_pid is not None:
        owner = Owner(pid=options.owner_pid, owned_directory=options.owned_directory)
    return run(
        config,
        features,
        ready_file=options.ready_file,
        as_json=as_json,
        log_level=options.log_level,
        open_door=_door_opener(clock) if config.settings.ottla_control_port is not None else None,
        owner=owner,
        clock=clock,
        warnings={**dict.fromkeys(config.without_effect()), **{name: variable_near(name) for name in ignored}},
    )


def _door_opener(clock: ManualClock | None) -> Callable[[Serving], ControlDoor]:
    # Imported only where it is wanted.
    from ottla.control.commands import Steered
    from ottla.control.door import ControlDoor

    return lambda serving: ControlDoor(Steered(serving=serving, clock=clock))


def _clock(text: str) -> ManualClock | None:
    """None for the machine's clock. Raises ValueError."""
    if text == "machine":
        return None
    kind, colon, start = text.partition(":")
    if kind != "manual" or (colon and not (start.isascii() and start.isdigit())):
        raise ValueError(f"--clock {text!r}: machine or manual, or manual:MS to begin so many ms after 1970, is wanted")
    from ottla.control.clock import ManualClock

    return ManualClock(int(start) if start else None)


def _features(texts: list[str]) -> dict[str, int]:
    from ottla.broker.cluster import SUPPORTED_FEATURES

    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not equals or not (level.isascii() and level.isdigit()):
            raise ValueError(f"--feature {text!r}: NAME=LEVEL is wanted")
        low, high = SUPPORTED_FEATURES.get(name, (0, -1))
        if not low <= int(level) <= high:
            known = ", ".join(f"{n} {a}-{b}" for n, (a, b) in sorted(SUPPORTED_FEATURES.items()))
            raise ValueError(f"--feature {text!r} is not supported; there are {known}")
        levels[name] = int(level)
    return levels


def _health(options: argparse.Namespace) -> int:
    from ottla.health import NotReady, ask, listening_address

    bootstrap = options.bootstrap
    try:
        if bootstrap is None and options.ready_file is not None:
            bootstrap = listening_address(options.ready_file)
        ask(bootstrap or DEFAULT_BOOTSTRAP, options.timeout_s)
    except NotReady as reason:
        print(f"ottla: {reason}", file=sys.stderr)
        return 1
    print(f"{bootstrap or DEFAULT_BOOTSTRAP} answers")
    return 0


def _demo(options: argparse.Namespace) -> int:
    try:
        from ottla.demo.run import run
    except ImportError as error:
        print(f"ottla: the demo needs {error.name}; install ottla[demo]", file=sys.stderr)
        return 1
    interrupt_on_ctrl_c()
    return run(port=options.port, purchases=options.purchases, data_dir=options.data_dir)


def _graduate(options: argparse.Namespace) -> int:
    from ottla.directories import graduate

    try:
        features = _features(options.feature)
    except ValueError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return USAGE_EXIT
    interrupt_on_ctrl_c()
    return graduate(options.data_dir, options.to, dry_run=options.dry_run, in_place=options.in_place, features=features)


def _adopt(options: argparse.Namespace) -> int:
    from ottla.directories import adopt

    interrupt_on_ctrl_c()
    return adopt(options.source, options.data_dir, options.topic)


def _audit(options: argparse.Namespace) -> int:
    from ottla.directories import audit

    interrupt_on_ctrl_c()
    return audit(options.directory)


def _pipeline(arguments: list[str]) -> int:
    try:
        if arguments[:1] == ["demo"]:
            from ottla.demo.pipeline import run

            interrupt_on_ctrl_c()
            return run(arguments[1:])
        from ottla.pipeline.cli import main
    except ModuleNotFoundError as missing:
        print(f"ottla pipeline needs {missing.name}: pip install 'ottla[pipeline]'", file=sys.stderr)
        return 1
    interrupt_on_ctrl_c()
    return main(arguments)


def main(arguments: list[str] | None = None) -> int:
    """The exit code. Ctrl-C ends every command without a traceback."""
    open_standard_streams()
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT


def _run(arguments: list[str]) -> int:
    if arguments[:1] == ["pipeline"]:
        return _pipeline(arguments[1:])
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return USAGE_EXIT
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "serve": _serve,
        "health": _health,
        "graduate": _graduate,
        "adopt": _adopt,
        "audit": _audit,
        "demo": _demo,
    }
    return commands[options.command](options)
