"""A stand-in for a container engine: the part of Docker's HTTP API that Testcontainers use, with containers of `running`.

Every image name selects ottla's image. An unknown request is answered with 404 and recorded in `Engine.unknown`, so that a
failed test reports which request is missing.
"""

from __future__ import annotations

import io
import json
import re
import secrets
import struct
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from tests.container.image import DOCKERFILE
from tests.container.running import PATH, Container, Log

API_VERSION = "1.44"
TRUE = ("1", "true", "True")
LOG_TICK_S = 0.05
EPOCH = "2026-01-01T00:00:00Z"
SUBNET = {"Subnet": "198.51.100.0/24", "Gateway": "198.51.100.1"}
NETWORK = {"Name": "bridge", "Id": "b" * 64, "Driver": "bridge", "Scope": "local", "IPAM": {"Config": [SUBNET]}}


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error of a client that disconnects during a request; report other errors as usual."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Engine:
    """A server that listens on `address` while it is used as a context manager, and removes its containers at the end."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.containers: dict[str, Created] = {}
        self.execs: dict[str, Exec] = {}
        self.unknown: list[str] = []
        self._numbers = count()
        self._server = _Server(("127.0.0.1", 0), type("Asked", (_Asked,), {"engine": self}))
        self.address = f"tcp://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for created in self.containers.values():
            created.container.remove()
        self._server.shutdown()
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for Testcontainers in all languages: they set the engine's address and disable companion
        containers.
        """
        off = ("TESTCONTAINERS_RYUK_DISABLED", "TESTCONTAINERS_CHECKS_DISABLE")
        where = {"DOCKER_HOST": self.address, "TESTCONTAINERS_HOST_OVERRIDE": "127.0.0.1"}
        return {**where, "DOCKER_API_VERSION": API_VERSION, **dict.fromkeys(off, "true")}

    def create(self, name: str, wanted: dict[str, Any]) -> Created:
        ports = {*(wanted.get("ExposedPorts") or {}), *((wanted.get("HostConfig") or {}).get("PortBindings") or {})}
        container = Container(
            self.directory / str(next(self._numbers)),
            command=wanted.get("Cmd"),
            entrypoint=wanted.get("Entrypoint") or None,
            environment=dict(pair.split("=", 1) for pair in wanted.get("Env") or []),
            ports=tuple(sorted(int(port.partition("/")[0]) for port in ports)),
        )
        created = Created(container, name or container.hostname, wanted)
        self.containers[container.id] = created
        return created

    def named(self, name: str) -> Created | None:
        def is_meant(made: Created) -> bool:
            return made.name == name or (len(name) >= 12 and made.container.id.startswith(name))

        return next(filter(is_meant, self.containers.values()), None)


class Exec(msgspec.Struct):
    """A command that a client runs in a container (``docker exec``)."""

    container: Container
    command: list[str]
    exit_code: int | None = None


class Created:
    """A container, and the configuration with which a client created it."""

    def __init__(self, container: Container, name: str, wanted: dict[str, Any]) -> None:
        self.container = container
        self.name = name
        self.wanted = wanted
        self.is_removed = False

    def described(self) -> dict[str, Any]:
        """Return the response of ContainerInspect."""
        container = self.container
        ports = {f"{port}/tcp": [{"HostIp": "0.0.0.0", "HostPort": str(at)}] for port, at in container.published.items()}
        status = "running" if container.is_running else "created" if not container.was_started else "exited"
        state = {"Status": status, "Running": status == "running", "ExitCode": container.exit_code or 0, "StartedAt": EPOCH}
        config = {
            "Hostname": container.hostname,
            "Image": self.wanted["Image"],
            "Env": [f"{key}={value}" for key, value in container.environment.items()],
            "Cmd": container.command,
            "Tty": False,
            "Labels": self.wanted.get("Labels") or {},
            "ExposedPorts": {port: {} for port in ports},
        }
        network = {"bridge": {"NetworkID": NETWORK["Id"], "IPAddress": "127.0.0.2", "Gateway": "127.0.0.1", "Aliases": []}}
        return {
            "Id": container.id,
            "Name": f"/{self.name}",
            "Created": EPOCH,
            "Image": "sha256:" + "a" * 64,
            "State": {**state, "Dead": False, "Paused": False, "OOMKilled": False, "Pid": 1, "FinishedAt": EPOCH},
            "Config": config,
            "HostConfig": {"NetworkMode": "bridge", "PortBindings": {}},
            "NetworkSettings": {"Ports": ports, "Networks": network, "IPAddress": "127.0.0.2", "Gateway": "127.0.0.1"},
            "Mounts": [],
        }


IMAGE = {
    "Id": "sha256:" + "a" * 64,
    "RepoTags": ["ottla:latest"],
    "RepoDigests": [],
    "Created": EPOCH,
    "Os": "linux",
    "Architecture": "amd64",
    "Size": 1,
    "Config": {"Env": [f"PATH={PATH}"], "Labels": {}, "Dockerfile": DOCKERFILE.name},
    "RootFS": {"Type": "layers", "Layers": []},
}
VERSION = {
    "Version": "27.0.0",
    "ApiVersion": API_VERSION,
    "MinAPIVersion": "1.24",
    "Os": "linux",
    "Arch": "amd64",
    "Components": [],
}
INFO = {
    "ID": "stand-in",
    "ServerVersion": "27.0.0",
    "OperatingSystem": "a stand-in for tests",
    "OSType": "linux",
    "Architecture": "x86_64",
    "MemTotal": 8 << 30,
    "NCPU": 2,
    "Name": "stand-in",
    "IndexServerAddress": "https://index.docker.io/v1/",
    "Labels": [],
    "Runtimes": {},
    "SecurityOptions": [],
}

Answer = tuple[int, Any]


class _Asked(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: Any) -> None:
        pass

    def _handle(self) -> None:
        url = urlsplit(self.path)
        path = re.sub(r"^/v[0-9.]+", "", unquote(url.path))
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        body = self._body()
        exec_route = re.fullmatch("/exec/([0-9a-f]+)/(start|json)", path)
        if exec_route:
            run = self.engine.execs[exec_route[1]]
            if exec_route[2] == "start":
                return self._run(run)
            return self._answer(200, {"ID": exec_route[1], "Running": False, "ExitCode": run.exit_code})
        for method, pattern, answer in ROUTES:
            match = re.fullmatch(pattern, path)
            if match and method == self.command:
                made = self.engine.named(match["id"]) if "id" in match.groupdict() else None
                if "id" in match.groupdict() and made is None:
                    return self._answer(404, {"message": f"No such container: {match['id']}"})
                if path.endswith("/logs"):
                    assert made is not None
                    wanted = [name for name in ("stdout", "stderr") if query.get(name) in TRUE]
                    return self._logs([made.container.logs[name] for name in wanted], made, follow=query.get("follow") in TRUE)
                return self._answer(*answer(self.engine, made, query, body))
        self.engine.unknown.append(f"{self.command} {path}")
        return self._answer(404, {"message": f"the stand-in does not know {self.command} {path}"})

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _handle

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _answer(self, status: int, value: Any) -> None:
        body = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Api-Version", API_VERSION)
        self.send_header("Content-Type", "text/plain" if isinstance(value, bytes) else "application/json")
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            # A client that has disconnected needs no response.
            with suppress(OSError):
                self.wfile.write(body)

    def _logs(self, logs: list[Log], made: Created, *, follow: bool) -> None:
        """Send the output as a multiplexed stream until the container ends.

        A header before each chunk names its stream and size.
        """
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with ExitStack() as opened:
            files = [(log.number, opened.enter_context(log.path.open("rb"))) for log in logs]
            while True:
                goes_on = follow and made.container.is_running and not made.is_removed
                pieces = [(number, piece) for number, file in files if (piece := file.read(1 << 16))]
                for number, piece in pieces:
                    self._chunk(struct.pack(">BxxxI", number, len(piece)) + piece)
                if not pieces and not goes_on:
                    return self._chunk(b"")
                if not pieces:
                    time.sleep(LOG_TICK_S)

    def _run(self, run: Exec) -> None:
        """Respond to ExecStart: run the command, and send its output on the connection."""
        done = run.container.run(*run.command)
        run.exit_code = done.returncode
        if "Upgrade" in self.headers:
            self.send_response(101)
            self.send_header("Connection", "Upgrade")
            self.send_header("Upgrade", "tcp")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "application/vnd.docker.multiplexed-stream")
            self.send_header("Connection", "close")
        self.end_headers()
        for number, text in ((1, done.stdout), (2, done.stderr)):
            if text:
                self.wfile.write(struct.pack(">BxxxI", number, len(text.encode())) + text.encode())
        self.close_connection = True

    def _chunk(self, piece: bytes) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))


def _create(engine: Engine, _: Created | None, query: dict[str, str], body: bytes) -> Answer:
    return 201, {"Id": engine.create(query.get("name", ""), json.loads(body)).container.id, "Warnings": []}


def _start(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    made.container.start()
    return 204, None


def _end(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    made.container.remove()
    return 204, None


def _remove(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    made.container.remove()
    made.is_removed = True
    del engine.containers[made.container.id]
    return 204, None


def _put(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    with tarfile.open(fileobj=io.BytesIO(body)) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None:
                made.container.put(f"{query['path']}/{member.name}", file.read(), mode=member.mode)
    return 200, None


def _new_exec(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    identity = secrets.token_hex(32)
    engine.execs[identity] = Exec(made.container, json.loads(body)["Cmd"])
    return 201, {"Id": identity}


def _inspect(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    assert made is not None
    return 200, made.described()


def _is(status: int, value: Any) -> Route:
    return lambda engine, made, query, body: (status, value)


def _listed(engine: Engine, made: Created | None, query: dict[str, str], body: bytes) -> Answer:
    """Return the response of ContainerList. Only the filter by id is supported."""
    filters = json.loads(query.get("filters", "{}"))
    wanted = [*filters.get("id", [])]
    listed = []
    for each in engine.containers.values():
        if not wanted or each.container.id in wanted:
            about = each.described()
            listed.append(
                {**about, "Names": [about["Name"]], "Labels": about["Config"]["Labels"], "State": about["State"]["Status"]}
            )
    return 200, listed


Route = Callable[[Engine, Created | None, dict[str, str], bytes], Answer]
CONTAINER = r"/containers/(?P<id>[^/]+)"
ROUTES: list[tuple[str, str, Route]] = [
    ("GET", "/_ping", _is(200, b"OK")),
    ("HEAD", "/_ping", _is(200, b"")),
    ("GET", "/version", _is(200, VERSION)),
    ("GET", "/info", _is(200, INFO)),
    ("GET", "/images/json", _is(200, [])),
    ("GET", "/images/.+/json", _is(200, IMAGE)),
    ("GET", "/networks", _is(200, [NETWORK])),
    ("GET", "/networks/bridge", _is(200, NETWORK)),
    ("GET", "/containers/json", _listed),
    ("POST", "/containers/create", _create),
    ("POST", f"{CONTAINER}/exec", _new_exec),
    ("GET", f"{CONTAINER}/json", _inspect),
    ("GET", f"{CONTAINER}/logs", _inspect),
    ("POST", f"{CONTAINER}/start", _start),
    ("POST", f"{CONTAINER}/(?:stop|kill)", _end),
    ("PUT", f"{CONTAINER}/archive", _put),
    ("DELETE", CONTAINER, _remove),
    ("POST", "/(?:containers|networks|volumes|images)/prune", _is(200, {})),
]
