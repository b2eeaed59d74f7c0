"""Removes functions that Python lacks on macOS, and adds F_FULLFSYNC, which only macOS has."""

import fcntl
import os
import socket
import time

for owner, names in (
    (os, "eventfd fdatasync memfd_create pidfd_open posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity"),
    (socket, "SO_REUSEPORT_LB TCP_KEEPIDLE TCP_QUICKACK TCP_USER_TIMEOUT"),
    (time, "CLOCK_BOOTTIME CLOCK_TAI"),
):
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
# With macOS's number, 51, fcntl fails on Linux with EINVAL. A test can set a number that Linux accepts.
fcntl.F_FULLFSYNC = int(os.environ.get("F_FULLFSYNC", "51"))
