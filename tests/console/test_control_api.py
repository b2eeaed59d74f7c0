"""Responses of the control API to a browser, without a socket: files, page values and refusals."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

import ottla.console
from ottla.console import site
from ottla.console.paging import ROWS_SHOWN, matching, part_of
from ottla.console.site import MAX_PAGES, Console, all_files
from ottla.console.values import VALUES
from ottla.control import http_api as control_api
from ottla.control.command import CommandRefused
from ottla.control.http_api import ControlServer
from ottla.control.pages import query_of
from ottla.http.http_requests import HAS_LEFT
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import in_thread, next_turn
from tests.console.asking import asked_with

PAGES = Path(ottla.console.__file__).parent / "pages"
TOKEN = "secret"
ADVERTISED = ("PLAINTEXT://Broker.example:9092",)


class StubClient:
    """A client without a broker, for previews that need none."""

    brokers = SimpleNamespace(timeout_s=0.0)

    def __enter__(self) -> StubClient:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


@pytest.fixture
def control_api_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ControlServer]:
    """Return a function that creates a control API with a token, but without a server and an event loop.

    Tests with this fixture only send requests that are refused or answered without the event loop.
    """
    monkeypatch.setattr(
        control_api,
        "BoundedHttpServer",
        lambda host, port, app, on_bug, *, own_names: SimpleNamespace(port=9095, close=lambda: None, own_names=own_names),
    )
    monkeypatch.setattr(control_api.asyncio, "get_running_loop", lambda: None)

    def made(token: str, *, is_read_only: bool = False) -> ControlServer:
        settings = SimpleNamespace(
            ottla_control_token=token, ottla_control_host="127.0.0.1", ottla_control_port=0, advertised_listeners=ADVERTISED
        )
        broker = SimpleNamespace(settings=settings, bootstrap="127.0.0.1:9092", addresses=SimpleNamespace(own=frozenset()))
        broker.lifecycle = SimpleNamespace(is_stopping=False)
        controlled = cast(Any, SimpleNamespace(serving=SimpleNamespace(broker=broker, directory="/none"), broker=broker))
        return ControlServer(controlled, Console(lambda reach, check: cast(Any, StubClient()), is_read_only=is_read_only))

    return made


@pytest.fixture
def opened(control_api_with: Callable[..., ControlServer]) -> ControlServer:
    return control_api_with(TOKEN)


@pytest.fixture
def looped(opened: ControlServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlServer]:
    """A control API with an event loop that runs in its own thread."""
    loop = asyncio.new_event_loop()
    monkeypatch.setattr(control_api.asyncio, "get_running_loop", lambda: loop)
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    opened._loop = loop
    yield opened
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    # A closed page may have scheduled a callback. Run the callback now, so that it causes no warning in a later test.
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def begun(
    opened: ControlServer,
    path: str,
    *,
    method: str = "GET",
    token: str | None = TOKEN,
    host: str = "127.0.0.1:9095",
    query: str = "",
    data: bytes = b"",
    origin: str | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Send a request, and return status, headers and body of the response. The body of an open page is an endless iterator."""
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": host, "QUERY_STRING": query}
    if token is not None:
        environ["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    if origin is not None:
        environ["HTTP_ORIGIN"] = origin
    environ |= {"wsgi.input": SimpleNamespace(read=lambda: data), HAS_LEFT: lambda: False}
    starts: list[Any] = []
    body = opened._answer(environ, lambda *given: cast(Any, starts.append(given)))
    status, headers = starts[0]
    return int(status.split()[0]), dict(headers), body


def asked(opened: ControlServer, path: str, **how: Any) -> tuple[int, dict[str, str], bytes]:
    status, headers, body = begun(opened, path, **how)
    return status, headers, b"".join(body)


def test_console_pages_need_no_token_and_load_no_files_from_other_hosts(opened: ControlServer) -> None:
    status, headers, body = asked(opened, "/console/", token=None)
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert body == (PAGES / "index.html").read_bytes()
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    for name in all_files():
        assert asked(opened, f"/console/{name}", token=None)[0] == 200


@pytest.mark.parametrize("token", [None, "", "wrong", "sécret"])
@pytest.mark.parametrize("path", ["/console/v1/overview", "/console/none", "/v1/state", "/console/../v1/state"])
def test_console_requests_for_data_need_the_token(opened: ControlServer, path: str, token: str | None) -> None:
    assert asked(opened, path, token=token)[0] == 401


@pytest.mark.parametrize(
    "path", ["/console/../site.py", "/console/pages/app.js", "/console//index.html", "/console/v1/", "/console/v1/x"]
)
def test_console_serves_only_its_page_files(opened: ControlServer, path: str) -> None:
    assert asked(opened, path)[0] == 404


def test_host_header_of_a_console_request_may_be_an_advertised_host(opened: ControlServer) -> None:
    assert cast(Any, opened._server).own_names == {"broker.example"}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_console_page_values_allow_only_get_requests(opened: ControlServer, method: str) -> None:
    assert asked(opened, "/console/v1/overview", method=method)[0] == 405


CREATE = b'{"topic": "orders"}'
PREVIEW = "/console/previews/create-topic"


def test_preview_of_a_console_action_has_the_equivalent_command(opened: ControlServer) -> None:
    for origin in (None, "http://127.0.0.1:9095"):
        status, headers, body = asked(opened, PREVIEW, method="POST", data=CREATE, origin=origin)
        assert (status, headers["Content-Type"]) == (200, "application/json")
        assert msgspec.json.decode(body)["command"] == "ottla topic create orders --bootstrap 127.0.0.1:9092"


@pytest.mark.parametrize("prefix", ["actions", "previews"])
def test_console_actions_are_refused_to_other_sites_and_without_the_token(opened: ControlServer, prefix: str) -> None:
    path = f"/console/{prefix}/create-topic"
    for token in (None, "", "wrong"):
        assert asked(opened, path, method="POST", data=CREATE, token=token)[0] == 401
    for origin in ("https://evil.example", "http://localhost:9095", "http://127.0.0.1:1", "null"):
        assert asked(opened, path, method="POST", data=CREATE, origin=origin)[0] == 403
    assert asked(opened, path, method="PUT", data=CREATE)[0] == 405
    assert asked(opened, path)[0] == 404, "a GET changes nothing"


@pytest.mark.parametrize(("path", "status"), [("previews/x", 404), ("actions/", 404), ("x", 404), ("", 404), ("v1/topics", 405)])
def test_post_requests_to_console_pages_are_refused(opened: ControlServer, path: str, status: int) -> None:
    assert asked(opened, f"/console/{path}", method="POST", data=CREATE)[0] == status


def test_read_only_console_refuses_actions_and_its_token_opens_no_control_api(
    control_api_with: Callable[..., ControlServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "VALUES", {"overview": lambda asked: {}})
    api = control_api_with(TOKEN, is_read_only=True)
    assert api.pages_url is not None
    (token,) = parse_qs(urlsplit(api.pages_url).fragment)["token"]
    assert TOKEN not in token
    assert api.pages_url == control_api_with(TOKEN, is_read_only=True).pages_url, "a restart keeps the token"
    for shown in (token, TOKEN):
        assert begun(api, "/console/v1/overview", token=shown)[0] == 200
        for path in (PREVIEW, "/console/actions/create-topic"):
            status, _, body = asked(api, path, method="POST", data=CREATE, token=shown)
            assert (status, b"the console is read-only" in body) == (403, True)
    for path in ("/v1/state", "/v1/pause", "/v1/faults", "/metrics"):
        assert asked(api, path, method="POST", token=token)[0] == 403
    assert asked(api, "/v1/none", token=TOKEN)[0] == 404
    assert b"isReadOnly = true" in asked(api, "/console/mode.js", token=None)[2]
    assert b"isReadOnly = false" in asked(control_api_with(TOKEN), "/console/mode.js", token=None)[2]


def test_console_token_is_passed_in_the_url_fragment(opened: ControlServer) -> None:
    assert opened.pages_url == "http://127.0.0.1:9095/console/#token=secret"


def test_console_token_with_any_characters_is_readable_from_the_url_fragment(
    control_api_with: Callable[..., ControlServer],
) -> None:
    """A browser parses the URL's fragment like form parameters, in which a plus sign means a space."""
    token = "a+b/c=%&#"
    url = control_api_with(token).pages_url
    assert url is not None
    assert parse_qs(urlsplit(url).fragment) == {"token": [token]}


def test_number_of_open_console_pages_is_limited(opened: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "VALUES", {"overview": lambda asked: {}})
    monkeypatch.setattr(site, "PLACE_TIMEOUT_S", 0.001)
    bodies = [begun(opened, "/console/v1/overview")[2] for _ in range(MAX_PAGES)]
    status, _, body = asked(opened, "/console/v1/overview")
    assert (status, b"pages of the console are already open" in body) == (409, True)
    bodies[0].close()
    bodies[0].close()
    again = begun(opened, "/console/v1/overview")
    assert again[0] == 200
    assert asked(opened, "/console/v1/overview")[0] == 409, "closing a page twice releases only one place"


def test_response_headers_are_not_shared_between_console_pages(opened: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """WSGI allows a server to modify the header list that it gets."""
    monkeypatch.setattr(site, "VALUES", {"overview": lambda asked: {}})
    given: list[list[tuple[str, str]]] = []
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/console/v1/overview", "HTTP_HOST": "127.0.0.1", HAS_LEFT: lambda: True}
    environ["HTTP_AUTHORIZATION"] = f"Bearer {TOKEN}"
    for _ in range(2):
        opened._answer(environ, lambda status, headers: cast(Any, given.append(headers)))
        given[0].append(("Content-Length", "0"))
    assert "Content-Length" not in dict(given[1])


@pytest.mark.parametrize("value", [None, {}, 5])
def test_console_values_read_on_the_event_loop_are_returned_unchanged(looped: ControlServer, value: object) -> None:
    assert looped.read(lambda controlled: value) is value


async def _three_steps(controlled: Any) -> str:
    await next_turn()
    await in_thread(lambda: None)
    return "done"


async def _fails_in_thread(controlled: Any) -> None:
    def fail() -> None:
        raise KafkaError(Code.KAFKA_STORAGE_ERROR, "the disk is gone")

    await in_thread(fail)


def test_console_values_of_a_coroutine_are_read_in_several_event_loop_steps(looped: ControlServer) -> None:
    assert looped.in_steps(_three_steps) == "done"
    with pytest.raises(KafkaError, match="the disk is gone"):
        looped.in_steps(_fails_in_thread)


def test_console_page_read_ends_when_the_broker_stops(looped: ControlServer) -> None:
    """A reset replaces the broker, whose files a read may no longer use."""
    closed: list[bool] = []

    async def endless(controlled: Any) -> None:
        try:
            await next_turn()
            controlled.serving.broker.lifecycle.is_stopping = True
            await next_turn()
            raise AssertionError
        finally:
            closed.append(True)

    with pytest.raises(CommandRefused, match="the broker is stopping, or its data is being replaced"):
        looped.in_steps(endless)
    assert closed == [True]


def test_console_page_read_times_out_if_the_event_loop_is_busy(looped: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_api, "READ_TIMEOUT_S", 0.01)
    goes_on = threading.Event()
    looped._loop.call_soon_threadsafe(goes_on.wait, 2.0)
    with pytest.raises(CommandRefused, match=r"the broker is busy and did not answer within") as refused:
        looped.read(lambda controlled: None)
    assert refused.value.status == 409
    goes_on.set()


def test_browser_with_the_maximum_of_open_console_pages_can_send_commands() -> None:
    """With HTTP/1.1, a browser has six connections to one host, and each open page occupies one of them."""
    assert MAX_PAGES < 6


def test_console_does_not_serve_editor_backup_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pages" / "drafts.js").mkdir(parents=True)
    for name in ("app.js", "app.js~", ".app.js.swp", "README"):
        (tmp_path / "pages" / name).write_text("text")
    monkeypatch.setattr(site, "files", lambda package: tmp_path)
    assert list(all_files.__wrapped__()) == ["app.js"]


def test_console_divides_a_long_list_into_pages() -> None:
    names = [f"t{at:04}" for at in range(ROWS_SHOWN * 2 + 1)]
    first = part_of(names, asked_with({}))
    assert (len(first.rows), first.total) == (ROWS_SHOWN, len(names))
    assert part_of(names, asked_with({"start": str(ROWS_SHOWN * 2)})).rows == [names[-1]]
    assert part_of(names, asked_with({"start": "9" * 18})).start == 0, "a start beyond the end of the list shows its first part"
    assert matching(names, asked_with({"match": "0007"}), str) == ["t0007"]


@pytest.mark.parametrize("text", ["-1", "x", "9" * 19, "١"])
def test_invalid_number_in_a_console_query_is_refused(text: str) -> None:
    with pytest.raises(CommandRefused, match="start must be a number"):
        part_of([], asked_with({"start": text}))


def test_length_of_a_console_query_is_limited() -> None:
    assert query_of("name=%3Cscript%3E&x=") == {"name": "<script>"}
    with pytest.raises(CommandRefused, match="at most"):
        query_of("&".join(f"a{at}=1" for at in range(50)))


def test_console_pages_never_parse_client_data_as_html() -> None:
    for path in PAGES.iterdir():
        text = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(|new Function|javascript:", text), path
        assert not re.search(r"(src|href)\s*=\s*\"(https?:)?//", text), path
        assert len(text.splitlines()) < 400, path


def test_every_console_page_requests_data_that_the_server_provides() -> None:
    (pages,) = re.findall(r"^const PAGES = \{ ([\w, ]+) \};$", (PAGES / "app.js").read_text(), re.MULTILINE)
    # The search in the console's header is not a page.
    assert {*pages.split(", "), "found"} == set(VALUES)
