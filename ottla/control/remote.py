"""A client of the control API, for other processes. It uses only the standard library, because users' tests import it."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import quote, urlsplit

TIMEOUT_S = 90.0
"""Timeout of a request, in seconds. It is longer than the timeouts of the control API."""
MAX_ANSWER_BYTES = 64 << 20
"""Maximum size of a response, in bytes. A larger response is not from a control API."""


class ControlError(Exception):
    """The broker has refused a command, or cannot be reached."""


class Remote:
    """The control API at ``url``. The broker prints the ``token`` when it is ready."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self._token = token
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def get(self, path: str) -> Any:
        """Send a GET, and return the response. Raises `ControlError`."""
        return self._ask("GET", path, None)

    def known_ids(self) -> list[tuple[str, int]]:
        """Return the transactional ids with the newest events, newest first, with the times of these events in ms.

        Raises `ControlError`.
        """
        return [(one["transactional_id"], one["newest_ms"]) for one in self.get("/v1/transactions")["transactions"]]

    def history(self, transactional_id: str) -> dict[str, Any]:
        """Return the events of a transactional id. Raises `ControlError`."""
        # An id from the command line may contain invalid UTF-8. `surrogatepass` lets the broker report such an id as unknown.
        name = quote(transactional_id, safe="", errors="surrogatepass")
        shown: dict[str, Any] = self.get(f"/v1/transactions/{name}/history")
        return shown

    def denials(self) -> list[dict[str, Any]]:
        """Return the newest actions that the authorizer has denied, newest first. Raises `ControlError`."""
        shown: list[dict[str, Any]] = self.get("/v1/denials")["denials"]
        return shown

    def post(self, path: str, parameters: Any = None) -> Any:
        """Send a POST, and return the response. Raises `ControlError`."""
        return self._ask("POST", path, {} if parameters is None else parameters)

    def delete(self, path: str) -> Any:
        """Send a DELETE, and return the response. Raises `ControlError`."""
        return self._ask("DELETE", path, None)

    def _connection(self) -> http.client.HTTPConnection:
        try:
            where = urlsplit(self.url)
            # For an address without a scheme, such as localhost:9095, `urlsplit` returns the host as the scheme.
            if where.scheme == "http" and where.hostname:
                return http.client.HTTPConnection(where.hostname, where.port, timeout=TIMEOUT_S)
        except (ValueError, http.client.HTTPException):
            pass
        raise ControlError(f"{self.url!r} is not the address of a control API; give one such as http://127.0.0.1:9095")

    def _ask(self, method: str, path: str, parameters: Any) -> Any:
        # An HTTP header can contain only printable ASCII characters.
        if not (self._token.isascii() and self._token.isprintable()):
            raise ControlError(f"{self._token!r} is not a token; use the token that the broker prints when it is ready")
        with closing(self._connection()) as connection:
            try:
                connection.request(method, path, None if parameters is None else json.dumps(parameters), self._headers)
                response = connection.getresponse()
                answer = json.loads(response.read(MAX_ANSWER_BYTES))
            except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
                raise ControlError(f"{self.url} does not answer like a control API: {error}") from error
        if response.status != http.client.OK:
            error_text = answer.get("error") if isinstance(answer, dict) else None
            raise ControlError(str(error_text or f"{self.url} answers with status {response.status}, but not like a control API"))
        return answer
