"""The entry point of the command line. Until a command handles signals itself, a signal exits the process at once.

During imports nothing needs to be cleaned up, and an exception could be lost or printed as a traceback.
"""

import gc
import os
import signal
import sys

from ottla.exit_codes import STOPPED, interrupted


def main() -> int:
    is_server = sys.argv[1:2] == ["serve"]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        code = STOPPED if is_server else interrupted(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    if is_server:
        # Without a handler, process 1 of a container would ignore SIGTERM, and stopping the container would wait for its timeout.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(STOPPED))
        # Imports create many objects and little garbage. Scanning the objects would take an eighth of the start.
        # `ottla.broker.process.running` enables the garbage collector again.
        gc.disable()
    from ottla.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
