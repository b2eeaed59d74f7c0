"""The entry point of the command line. Until a command handles signals, a signal ends the process at once and without a traceback.

While modules are imported, nothing has begun that must be ended, and an exception there may be lost or printed.
"""

import gc
import os
import signal
import sys


def main() -> int:
    """Run the command line; returns the exit code."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # The exit code that shells give a command that Ctrl-C has ended.
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    if sys.argv[1:2] == ["serve"]:
        # SIGTERM ends the process, as it later ends the broker. Process 1 of a container would otherwise ignore the signal, and
        # whoever stops the container would wait.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Imports make many objects that stay and little garbage. The collector would walk them a hundred times, which takes an
        # eighth of a start. `ottla.broker.process.running` turns the collector on again.
        gc.disable()
    from ottla.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
