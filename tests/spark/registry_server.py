"""A schema registry that counts requests, refuses them if told to, and accepts any text as a schema, which ottla's own does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ottla.spark.schemas.registry import Registry


class RegistryServer:
    """A registry in a thread. ``schemas`` are by id, and ``asked`` has each request's first line and Authorization header."""

    def __init__(self) -> None:
        self.schemas: dict[int, dict[str, str]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[tuple[str, str | None]] = []
        self.fails_with: int | None = None

    def add(self, schema: str, kind: str = "AVRO") -> int:
        for number, known in self.schemas.items():
            if known["schema"] == schema:
                return number
        number = 100_000 + len(self.schemas)
        self.schemas[number] = {"schema": schema} | ({"schemaType": kind} if kind != "AVRO" else {})
        return number

    def answer(self, path: str, body: bytes) -> tuple[int, object]:
        if self.fails_with is not None:
            return self.fails_with, {"error_code": self.fails_with, "message": "not today"}
        match path.strip("/").split("/"):
            case ["schemas", "ids", number] if int(number) in self.schemas:
                return 200, self.schemas[int(number)]
            case ["subjects", subject, "versions"] if body:
                number = self.add(json.loads(body)["schema"])
                self.subjects.setdefault(subject, []).append(number)
                return 200, {"id": number}
        return 404, {"error_code": 40403, "message": "Schema not found"}


@contextmanager
def registry_server() -> Iterator[tuple[RegistryServer, Registry]]:
    server = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            server.asked.append((f"{self.command} {self.path}", self.headers["Authorization"]))
            status, said = server.answer(self.path, body)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server, Registry(f"http://127.0.0.1:{http.server_address[1]}")
    finally:
        http.shutdown()
        thread.join()
        http.server_close()
