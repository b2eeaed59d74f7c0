"""The entry point of the command line. Until a command handles signals, a signal exits the process at once, without a traceback.

During imports nothing needs to be cleaned up, and an exception might be lost or printed.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """Run the command line and return the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # The exit code that shells use for a command that Ctrl-C has ended.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.argv[1:2] == ["serve"]:
        # SIGTERM exits the process, as it later stops the broker. Process 1 of a container would otherwise ignore the signal, and
        # stopping the container would take until its timeout.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Imports create many permanent objects and little garbage. The garbage collector would scan them a hundred times, which
        # takes an eighth of a start. `ottla.broker.process.running` enables the collector again.
        gc.disable()
    from ottla.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
