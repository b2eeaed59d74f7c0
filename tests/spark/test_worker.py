"""Preparation of a Python worker before its tasks: it leaks no resources and has no effect on the tasks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]


def in_a_worker(code: str) -> str:
    """Run the code in a new process, because preparation changes a process only once."""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_prepared_spark_worker_closes_no_files_and_sockets() -> None:
    assert (
        in_a_worker("""
import os, socket, tempfile
from ottla.spark.worker import prepare
files = [tempfile.TemporaryFile() for _ in range(5)]
listening = socket.create_server(("127.0.0.1", 0))
there = socket.create_connection(listening.getsockname())
here, _ = listening.accept()
pair = socket.socketpair()
pipe = os.pipe()
before = os.listdir("/dev/fd")
for _ in range(50):
    prepare()
assert os.listdir("/dev/fd") == before, (before, os.listdir("/dev/fd"))
assert here.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
assert there.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
here.sendall(b"x")
pair[0].sendall(b"y")
os.write(pipe[1], b"z")
files[0].write(b"f")
print(there.recv(1) + pair[1].recv(1) + os.read(pipe[0], 1))
""")
        == "b'xyz'"
    )


def test_spark_worker_collects_garbage_of_tasks_but_not_imports() -> None:
    assert (
        in_a_worker("""
import gc, weakref
from ottla.spark.worker import prepare
class Cycle: pass
def task():
    prepare()
    cycle = Cycle()
    cycle.itself = cycle
    return weakref.ref(cycle)
references = [task() for _ in range(3)]
frozen = gc.get_freeze_count()
gc.collect()
print(frozen > 1000, [f() for f in references])
""")
        == "True [None, None, None]"
    )


def test_second_task_of_a_spark_worker_does_not_exclude_imported_modules_from_gc_again() -> None:
    assert (
        in_a_worker("""
import gc
from ottla.spark.worker import prepare
prepare()
calls = []
gc.freeze = lambda: calls.append("freeze")
gc.get_freeze_count = lambda: calls.append("count") or 1
for _ in range(3):
    prepare()
print(calls)
""")
        == "[]"
    )


def test_spark_worker_reads_package_archives_once(tmp_path: Path) -> None:
    assert (
        in_a_worker(f"""
import importlib, sys, zipfile, zipimport
path = {str(tmp_path / "a.zip")!r}
with zipfile.ZipFile(path, "w") as archive:
    archive.writestr("first.py", "X = 1")
    archive.writestr("second.py", "X = 2")
sys.path.append(path)
from ottla.spark.worker import prepare
prepare()
import first
reads = []
whole = zipimport._read_directory
zipimport._read_directory = lambda path: reads.append(path) or whole(path)
importlib.invalidate_caches()
import second
print(first.X, second.X, reads)
""")
        == "1 2 []"
    )
