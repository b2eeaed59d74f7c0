"""Removes modules and functions that Python does not have on Windows."""

# These modules read names at their import that are removed below, so they are imported first.
import asyncio
import asyncio.unix_events
import concurrent.futures.thread  # noqa: F401
import getpass  # noqa: F401
import http.client  # noqa: F401
import logging  # noqa: F401
import multiprocessing  # noqa: F401
import os
import random  # noqa: F401
import selectors  # noqa: F401
import shutil  # noqa: F401
import signal
import socket
import ssl  # noqa: F401
import subprocess
import sys
import tempfile  # noqa: F401
import time
import uuid  # noqa: F401

MODULES = {"fcntl", "grp", "pty", "pwd", "re2", "readline", "resource", "syslog", "termios", "tty", "uvloop"}
OS = (
    "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK WNOHANG chown chroot fchdir fdatasync fork forkpty getloadavg getpgid "
    "getpgrp killpg lchown mkfifo nice openpty posix_fadvise posix_fallocate posix_spawn pread preadv pwrite pwritev "
    "register_at_fork sched_getaffinity sendfile setpgid setsid statvfs sync sysconf wait wait3 wait4 waitid"
).split()
SIGNALS = (
    "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 pause pthread_sigmask setitimer sigwait"
).split()


class Absent:
    """An importer that does not find the removed modules."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def remove(owner: object, names: list[str]) -> None:
    for name in names:
        if hasattr(owner, name):
            delattr(owner, name)


def refuse(*arguments: object, **options: object) -> None:
    """Replaces methods of asyncio's event loops that raise NotImplementedError on Windows."""
    raise NotImplementedError


for module in MODULES:
    sys.modules.pop(module, None)
sys.meta_path.insert(0, Absent())
remove(os, OS)
remove(signal, SIGNALS)
remove(socket, ["AF_UNIX", "SO_REUSEPORT", "TCP_QUICKACK", "TCP_USER_TIMEOUT"])
remove(time, [name for name in dir(time) if name.startswith(("CLOCK_", "clock_"))])
asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = refuse
asyncio.unix_events._UnixSelectorEventLoop.create_unix_server = refuse
# On Windows, kill() and terminate() are the same: both call TerminateProcess, which the process cannot handle.
subprocess.Popen.kill = subprocess.Popen.terminate = lambda self: self.send_signal(9)
