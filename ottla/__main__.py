"""Where the command line begins: a signal ends the process at once, and without a traceback, until a command handles it.

While modules are imported nothing was begun yet that had to be ended, and an exception there may be lost or shown.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """The exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # What shells give a command that Ctrl-C has ended.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.argv[1:2] == ["serve"]:
        # As the broker does later. Process 1 of a container ignores the signal otherwise, and whoever stops it waits.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Imports make much that stays and little garbage; the collector would walk it a hundred times, an eighth of a start.
        # `ottla.broker.main` has it work from the start's end on.
        gc.disable()
    from ottla.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
