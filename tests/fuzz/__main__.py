"""Fuzzer of a broker: ``python -m tests.fuzz``. ``make fuzz SEEDS=10-20 INPUTS=500`` runs given seeds.

A failure is reported with its seed, and with a file that reproduces it: ``python -m tests.fuzz --replay FILE``.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path

from ottla.invariants import CHECKED
from tests.fuzz.exchange import Failure
from tests.fuzz.host import Host, TimedHost, warm_up
from tests.fuzz.replay import Trace, keep, reduced, replay
from tests.fuzz.run import Run
from tests.fuzz.sockets import SocketHost

FAILED = Path(".cache") / "fuzz"
HOLD_TRIES = 3
"""Number of runs that must all fail before a blocked event loop, measured in processor time, is reported.

One slow run may be due to load on the machine.
"""


def seeds(text: str) -> range:
    """Parse a seed or a range of seeds: ``7`` or ``7-12``."""
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def run(seed: int, inputs: int, host: type[Host | SocketHost]) -> tuple[Run, Failure | None]:
    """Run one seed until its last input or its first failure."""
    for left in reversed(range(HOLD_TRIES if host is TimedHost else 1)):
        one = Run(seed, host)
        try:
            one.go(inputs)
        except Failure as failure:
            if failure.is_hold and left:
                gc.collect()
                continue
            return one, failure
        return one, None
    raise AssertionError


def host_of(options: argparse.Namespace) -> type[Host | SocketHost]:
    return SocketHost if options.sockets else TimedHost if options.timed else Host


def report_failure(one: Run, failure: Failure, options: argparse.Namespace) -> None:
    trace = Trace(one.seed, one.given, one.host.trace)
    if options.reduce:
        trace = reduced(trace, str(failure), host_of(options))
    path = keep(FAILED, trace, str(failure))
    print(f"seed {one.seed}, input {one.host.inputs}: {failure}", file=sys.stderr)
    print(f"  again: make fuzz SEEDS={one.seed} INPUTS={options.inputs}", file=sys.stderr)
    print(f"  or, {len(trace.actions)} actions: python -m tests.fuzz --replay {path}", file=sys.stderr)


def main() -> int:
    CHECKED.whole_states = True
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-20"))
    parser.add_argument("--inputs", type=int, default=500, help="inputs of each seed")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    parser.add_argument("--reduce", action="store_true", help="leave out of a failure's trace what it does not need")
    parser.add_argument("--sockets", action="store_true", help="a broker process for each seed instead of one in this process")
    parser.add_argument("--timed", action="store_true", help="measure in processor time how long the loop is held, not in lines")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="play a trace")
    options = parser.parse_args()
    warm_up()
    gc.disable()
    gc.freeze()
    if options.replay is not None:
        replay(options.replay, host_of(options))
        return 0
    failed, inputs, longest = 0, 0, 0.0
    seen: set[object] = set()
    began = time.process_time()
    for seed in options.seeds:
        one, failure = run(seed, options.inputs, host_of(options))
        if failure is not None:
            failed += 1
            report_failure(one, failure, options)
            if not options.keep_going:
                return 1
        inputs += one.host.inputs
        longest = max(longest, getattr(one.host, "longest", 0.0))
        seen |= one.seen
        gc.collect()
    seconds = time.process_time() - began
    hold = f"longest hold {longest:.1f} {'ms' if options.timed else 'lines'}"
    print(f"{inputs} inputs, {failed} failures, {len(seen)} kinds of answers, {hold}, {seconds:.1f} s of CPU")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
