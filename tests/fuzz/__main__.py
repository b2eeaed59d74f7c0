"""``python -m tests.fuzz``: fuzz a broker. ``make fuzz SEEDS=10-20 INPUTS=500`` runs seeds again."""

from __future__ import annotations

import argparse
import gc
import sys
import time

from tests.fuzz.host import Failure, warm_up
from tests.fuzz.run import Run


def seeds(text: str) -> range:
    """``7`` or ``7-12``."""
    low, _, high = text.partition("-")
    return range(int(low), int(high or low) + 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seeds", type=seeds, default=seeds("1-20"))
    parser.add_argument("--inputs", type=int, default=500, help="inputs of each seed")
    parser.add_argument("--keep-going", action="store_true", help="go on after a failure")
    options = parser.parse_args()
    warm_up()
    gc.disable()
    gc.freeze()
    failed, inputs, longest = 0, 0, 0.0
    seen: set[object] = set()
    began = time.process_time()
    for seed in options.seeds:
        run = Run(seed)
        try:
            run.go(options.inputs)
        except Failure as failure:
            failed += 1
            print(f"seed {seed}, input {run.host.inputs}: {failure}", file=sys.stderr)
            print(f"  again: make fuzz SEEDS={seed} INPUTS={options.inputs}\n  last: {run.host.trace[-1][:300]}", file=sys.stderr)
            if not options.keep_going:
                return 1
        inputs += run.host.inputs
        longest = max(longest, run.host.longest_ms)
        seen |= run.seen
        gc.collect()
    seconds = time.process_time() - began
    print(
        f"{inputs} inputs, {failed} failures, {len(seen)} kinds of answers, longest hold {longest:.1f} ms, {seconds:.1f} s of CPU"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
