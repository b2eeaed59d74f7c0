"""Containers of the image without an engine: new namespaces, published ports, copied files, log lines."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.container.image import OF_THE_MACHINE, ROOT, USER_ID, Image, build
from tools.kafka import Unavailable

INSIDE = Path(__file__).parent / "inside.py"
NAMESPACES = ("--mount", "--net", "--uts", "--pid", "--fork", "--kill-child=SIGKILL")
PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
STARTED_TIMEOUT_S = 60


@cache
def unshare() -> tuple[str, ...]:
    """Return the command that starts a process in new namespaces. Raises `Unavailable` if this machine does not support them."""
    program = shutil.which("unshare")
    if sys.platform != "linux" or program is None:
        raise Unavailable("containers need Linux and unshare")
    # A user who is not root becomes root in a user namespace. That namespace has no other user.
    command = (program, *(() if os.getuid() == 0 else ("--map-root-user",)), *NAMESPACES)
    done = subprocess.run([*command, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"this machine gives no namespaces: {done.stderr.strip()}")
    return command


def _runs(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Log(NamedTuple):
    """An output stream of a container, with its number in the engine's API."""

    number: int
    path: Path


class Container:
    """A container that is created, started once, and removed."""

    def __init__(
        self,
        directory: Path,
        *,
        command: list[str] | None = None,
        entrypoint: list[str] | None = None,
        environment: dict[str, str] | None = None,
        ports: tuple[int, ...] = (),
        names: tuple[str, ...] = (),
        writable: tuple[str, ...] | None = None,
        volumes: Mapping[str, Path] | None = None,
    ) -> None:
        """Build the root directory. ``names`` are host names that other containers would use for this one.

        ``writable``, if given, are the directories of volumes; the rest of the root is then read-only. ``volumes`` are directories
        of this machine, mounted at paths of the container. A directory that does not exist is a new volume.
        """
        self._unshare = unshare()
        self.id = secrets.token_hex(32)
        self.hostname = self.id[:12]
        self.directory = directory
        self.image: Image = build(directory / "root")
        self.environment = {"PATH": PATH, "HOSTNAME": self.hostname, **self.image.environment, **(environment or {})}
        self.command = [*(self.image.entrypoint if entrypoint is None else entrypoint), *(command or self.image.command)]
        self._listening = {port: socket.create_server(("127.0.0.1", 0)) for port in ports}
        self.published = {port: int(server.getsockname()[1]) for port, server in self._listening.items()}
        self.logs = {name: Log(number, directory / name) for number, name in ((1, "stdout"), (2, "stderr"))}
        for log in self.logs.values():
            log.path.touch()
        self._process: subprocess.Popen[bytes] | None = None
        own_names = " ".join((self.hostname, *names))
        self.image.at("etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.0.2 {own_names}\n")
        self._writable = writable
        self._user_id = USER_ID if os.getuid() == 0 else 0
        for path in self.image.owned if self._user_id else ():
            os.chown(self.image.at(path), USER_ID, USER_ID)
        self._volumes = {path: self._volume(path, volume) for path, volume in (volumes or {}).items()}
        for path in writable or ():
            volume = self.image.at(path)
            volume.mkdir(parents=True, exist_ok=True)
            if self._user_id:
                # Kubernetes gives a volume to the group of securityContext.fsGroup, and to no user.
                os.chown(volume, 0, USER_ID)
            volume.chmod(0o2775)

    def _volume(self, path: str, volume: Path) -> str:
        """Return the directory of a volume. As by an engine, a new volume gets the content of the image's directory and its owners,
        or belongs to root if the image has no such directory."""
        target = self.image.at(path)
        if not volume.exists():
            if target.exists():
                shutil.copytree(target, volume, symlinks=True)
                for copied in (volume, *volume.rglob("*")):
                    owner = (target / copied.relative_to(volume)).lstat()
                    os.chown(copied, owner.st_uid, owner.st_gid)
            else:
                volume.mkdir(mode=0o755)
        target.mkdir(parents=True, exist_ok=True)
        return str(volume)

    def start(self) -> None:
        # A virtual environment may be a link to another directory.
        prefixes = (sys.prefix, os.path.realpath(sys.prefix), sys.base_prefix, str(ROOT))
        here = [path for path in prefixes if not path.startswith("/usr")]
        specification = {
            "root": str(self.image.root),
            "hostname": self.hostname,
            "published": [(server.fileno(), port) for port, server in self._listening.items()],
            "bound": ["/dev", *OF_THE_MACHINE, *dict.fromkeys(here)],
            "writable": self._writable,
            "volumes": self._volumes,
            "workdir": self.image.workdir,
            "user_id": self._user_id,
            "environment": self.environment,
            "command": self.command,
        }
        file = self.directory / "specification.json"
        file.write_text(json.dumps(specification))
        with self.logs["stdout"].path.open("ab") as stdout, self.logs["stderr"].path.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*self._unshare, sys.executable, "-I", str(INSIDE), str(file)],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=[server.fileno() for server in self._listening.values()],
            )
        for server in self._listening.values():
            server.close()

    @property
    def runs_as_root(self) -> bool:
        """Whether processes run as root of a user namespace, because this machine's user is not root."""
        return not self._user_id

    @property
    def was_started(self) -> bool:
        return self._process is not None

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def text(self) -> str:
        """Return everything that the container has written: stdout, then stderr."""
        return "".join(log.path.read_text(errors="replace") for log in self.logs.values())

    def wait_for(self, expression: str) -> str:
        """Wait for a log line that matches the expression, and return it.

        Raises AssertionError if the container ends without such a line.
        """
        deadline = time.monotonic() + STARTED_TIMEOUT_S
        while True:
            has_ended = not self.is_running
            for line in self.text.splitlines():
                if re.search(expression, line):
                    return line
            assert not has_ended and time.monotonic() < deadline, self.text
            time.sleep(0.05)

    def wait_for_port(self, port: int) -> None:
        """Wait until a connection inside the container succeeds, as some libraries do."""
        deadline = time.monotonic() + STARTED_TIMEOUT_S
        while self.run("/bin/bash", "-c", f"</dev/tcp/localhost/{port}").returncode:
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)

    def put(self, path: str, data: bytes, *, mode: int) -> None:
        """Copy a file into the container as an engine does: atomically, and owned by root."""
        target = self.image.at(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.part")
        unfinished.write_bytes(data)
        unfinished.chmod(mode)
        unfinished.rename(target)

    def _first_process(self) -> int:
        """Return the pid of the container's process 1 outside its namespace."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        deadline = time.monotonic() + STARTED_TIMEOUT_S
        while not (numbers := children.read_text().split()):
            assert time.monotonic() < deadline, self.text
            time.sleep(0.01)
        return int(numbers[0])

    def run(self, *command: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as ``docker exec`` does."""
        first = str(self._first_process())
        entered = ["nsenter", "--target", first, "--mount", "--net", "--uts", "--pid", "--root", "--wd"]
        as_user = ["setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"] if self._user_id else []
        if not self._user_id:
            entered += ["--user", "--preserve-credentials"]
        return subprocess.run(
            [*entered, "--", *as_user, *command],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            env=self.environment,
        )

    def stop(self) -> int:
        """Send SIGTERM to process 1, and return its exit code."""
        assert self._process is not None
        os.kill(self._first_process(), signal.SIGTERM)
        return self._process.wait(STARTED_TIMEOUT_S)

    def remove(self) -> None:
        """Kill all processes of the container. Its process namespace ends with process 1."""
        if self.is_running:
            assert self._process is not None
            first = self._first_process()
            self._process.kill()
            self._process.wait(STARTED_TIMEOUT_S)
            deadline = time.monotonic() + STARTED_TIMEOUT_S
            while _runs(first):
                assert time.monotonic() < deadline, "processes of the container still run after it was killed"
                time.sleep(0.01)
        for server in self._listening.values():
            server.close()


Started = Callable[..., Container]
"""Creates and starts a container with the options of `Container`."""


@contextmanager
def started_containers(directory: Path) -> Iterator[Started]:
    """Yield a function that creates and starts containers, which are removed at the end."""
    containers: list[Container] = []

    def start(**options: Any) -> Container:
        container = Container(directory / f"container-{len(containers)}", **options)
        containers.append(container)
        container.start()
        return container

    yield start
    for container in containers:
        container.remove()
