"""``python -m shop COMMAND``: creates topics, generates orders, runs the jobs, audits the result."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Final

from shop.settings import Settings, WrongSetting, read

UNSOUND_EXIT: Final = 2
"""Exit code of an audit that has found errors."""


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        return _ran(_parser().parse_args(arguments))
    except KeyboardInterrupt:
        print("shop: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT


def _ran(given: argparse.Namespace) -> int:
    """Run the command and return the exit code. Prints an error with a cause outside of the program as one line."""
    from ottla.client import ClientError
    from ottla.pipeline.signals import Stopped
    from ottla.testing.handle import BrokerFailed

    try:
        return int(given.command(read(given.config), given))
    except (WrongSetting, ClientError, BrokerFailed) as error:
        print(f"shop: {error}", file=sys.stderr)
        return 1
    except Stopped as stopped:
        print(f"shop: stopped by {stopped.number.name}; no transaction is left open", file=sys.stderr)
        return 128 + stopped.number


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="shop", description=__doc__, allow_abbrev=False)
    parser.add_argument("--config", metavar="FILE", help="TOML file with settings (default: $SHOP_CONFIG)")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[Settings, argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        one.set_defaults(command=function)
        return one

    command("topics", _topics, "Create the topics that do not exist.")
    generate = command("generate", _generate, "Create the topics, and write records, unless there are orders.")
    generate.add_argument("--orders", type=_count, default=5_000, metavar="N", help="number of orders (default: 5000)")
    generate.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the orders (default: 1)")
    generate.add_argument("--step-ms", type=_count, default=5_000, metavar="MS", help="event time between orders (default: 5000)")
    run = command("run", _run, "Run jobs until all records are read.")
    run.add_argument("jobs", nargs="*", metavar="JOB", help="distinct, invoices, revenue, settlements (default: all)")
    run.add_argument("--forever", action="store_true", help="run the jobs together until a signal")
    command("audit", _audit, f"Prove that each record is accounted for once. Exit with 0 if so, else with {UNSOUND_EXIT}.")
    chaos = command("chaos", _chaos, "Kill driver, executors and broker while the jobs run, on processes of its own.")
    chaos.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the kills and the orders (default: 1)")
    chaos.add_argument("--kills", type=_count, default=6, metavar="N", help="number of kills (default: 6)")
    chaos.add_argument("--orders", type=_count, default=480, metavar="N", help="number of orders (default: 480)")
    chaos.add_argument("--directory", metavar="DIR", help="where to keep logs and checkpoints (default: a temporary directory)")
    chaos.add_argument("--picture", metavar="FILE", help="SVG file to draw the run to")
    return parser


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1")
    return int(text)


def _topics(settings: Settings, _: argparse.Namespace) -> int:
    from shop.topics import create

    new = create(settings)
    print(f"created {', '.join(new)}" if new else "all topics exist")
    return 0


def _generate(settings: Settings, given: argparse.Namespace) -> int:
    from shop.generate import Workload, fill
    from shop.schemas import ORDERS
    from shop.topics import client, create

    create(settings)
    with client(settings) as cluster:
        if next(cluster.stream(ORDERS), None) is not None:
            # Do not generate again: the ids would be the same, and compose runs this command at every start.
            print(f"topic {ORDERS} has records, so none are generated")
            return 0
    total = fill(settings, Workload(given.orders, given.seed, given.step_ms))
    print(f"{total:,} records written")
    return 0


def _run(settings: Settings, given: argparse.Namespace) -> int:
    from shop.running import JOBS, run

    if unknown := [name for name in given.jobs if name not in JOBS]:
        raise WrongSetting(f"unknown job {unknown[0]}; the jobs are {', '.join(JOBS)}")
    run(given.jobs or list(JOBS), settings, forever=given.forever, say=lambda line: print(line, flush=True))
    return 0


def _audit(settings: Settings, _: argparse.Namespace) -> int:
    from shop.audit import run
    from shop.findings import shown

    audited = run(settings)
    print(shown(audited))
    return 0 if audited.is_sound else UNSOUND_EXIT


def _chaos(settings: Settings, given: argparse.Namespace) -> int:
    from shop.chaos import Plan, run

    plan = Plan(seed=given.seed, kills=given.kills, orders=given.orders)
    return 0 if run(settings, plan, given.directory, given.picture) else UNSOUND_EXIT


if __name__ == "__main__":
    sys.exit(main())
