"""The entry point of the command line. Until a command handles signals itself, a signal exits the process at once.

During imports nothing needs to be cleaned up, and an exception could be lost or printed as a traceback.
"""

import gc
import os
import sys


def prefer_standard_library() -> None:
    """Import Python's own modules before files of the same names in PYTHONPATH or in the working directory, such as ``queue.py`` or
    ``calendar.py``. Other packages there still replace installed packages."""
    directory = os.__file__.rpartition(os.sep)[0]
    sys.path.sort(key=lambda entry: entry not in (directory, f"{directory}{os.sep}lib-dynload"))


def main() -> int:
    prefer_standard_library()
    # `signal` imports `enum`, which would be a user's enum.py in PYTHONPATH if the path were not sorted first.
    import signal

    is_server = sys.argv[1:2] == ["serve"]
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        # The same exit codes as in `ottla.process`, whose import would slow down the start.
        code = 0 if is_server else 128 + signal.SIGINT
        signal.signal(signal.SIGINT, lambda *_: os._exit(code))
    if is_server:
        # Without a handler, process 1 of a container would ignore SIGTERM, and stopping the container would wait for its timeout.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
        # Imports create many objects and little garbage. Scanning them for garbage would take an eighth of the start.
        # `ottla.broker.process.running` enables the garbage collector again.
        gc.disable()
    from ottla.cli import main as run

    return run()


if __name__ == "__main__":
    raise SystemExit(main())
