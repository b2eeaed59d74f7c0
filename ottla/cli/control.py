"""Finds the control API of a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ottla.cli.commands import Refused
from ottla.cli.options import PATH, READY_FILE_VARIABLE, cluster_at, json_option
from ottla.cli.output import note

if TYPE_CHECKING:
    from ottla.client import KafkaClient
    from ottla.control.remote import Remote

URL_VARIABLE, TOKEN_VARIABLE = "OTTLA_CONTROL_URL", "OTTLA_CONTROL_TOKEN"

C = TypeVar("C", bound=Callable[..., Any])


def controls_broker(command: C) -> C:
    """Add the options of a command that controls a broker."""
    return finds_control_api(json_option(command))


def finds_control_api(command: C) -> C:
    """Add the options that locate a broker's control API."""
    command = click.option(
        "--ready-file",
        type=PATH,
        envvar=READY_FILE_VARIABLE,
        metavar="FILE",
        help=f"Ready file of the broker, which has the URL and token of its control API (default: ${READY_FILE_VARIABLE}).",
    )(command)
    command = click.option(
        "--token", envvar=TOKEN_VARIABLE, metavar="TOKEN", help=f"Token of the control API (default: ${TOKEN_VARIABLE})."
    )(command)
    return click.option("--url", envvar=URL_VARIABLE, metavar="URL", help=f"URL of the control API (default: ${URL_VARIABLE}).")(
        command
    )


def remote(url: str | None, token: str | None, ready_file: Path | None) -> Remote:
    """Return the control API that the options select. Raises `Refused`."""
    found = remotes(url, token, ready_file)
    if len(found) > 1:
        raise Refused(f"{ready_file} has a control API for each broker; give --url and --token of one broker")
    return found[0]


def remotes(url: str | None, token: str | None, ready_file: Path | None) -> list[Remote]:
    """Return the control APIs of all nodes of the cluster that the options select. Raises `Refused`."""
    from ottla.client.ready_line import NotReady, read_ready_file
    from ottla.control.remote import Remote

    if url and token:
        return [Remote(url, token)]
    if url or token or ready_file is None:
        raise Refused("no broker was given; give --ready-file, or --url and --token, which ottla serve --control-port 0 prints")
    try:
        said = read_ready_file(ready_file)
    except NotReady as error:
        raise Refused(str(error)) from None
    brokers = said.get("brokers")
    nodes = [said, *(brokers.values() if isinstance(brokers, dict) else ()), said.get("controller")]
    found = [known for node in nodes if isinstance(node, dict) and (known := _control_api_in(node)) is not None]
    if not found:
        raise Refused(f"the broker of {ready_file} has no control API; start it with ottla serve --control-port 0")
    return found


def _control_api_in(said: dict[str, Any]) -> Remote | None:
    """Return the control API that a ready file names; None if the broker has no control API."""
    from ottla.control.remote import Remote

    match said.get("control"):
        case {"url": str(url), "token": str(token)}:
            return Remote(url, token)
    return None


@contextmanager
def cluster_and_control_api(
    bootstrap: str, timeout_s: float, url: str | None, token: str | None, ready_file: Path | None
) -> Iterator[tuple[KafkaClient, Remote | None]]:
    """Yield a client of the cluster, and the broker's control API for more details, if available.

    If --ready-file is given without --bootstrap, the broker's address is read from this file. Raises `Refused`.
    """
    control_api = _control_api_if_any(url, token, ready_file)
    with cluster_at(_bootstrap_of(bootstrap, ready_file), timeout_s) as cluster:
        yield cluster, None if control_api is None else _control_api_of(cluster, control_api)


def time_of(control_api: Remote | None) -> int:
    """Return the current time, in ms, for computing transaction timeouts: by the broker's clock, which may be manual, or by this
    machine's clock without a control API. Raises `Refused`.
    """
    from ottla.client import real_time
    from ottla.control.remote import ControlError

    if control_api is None:
        return real_time.now_ms()
    try:
        now_ms: int = control_api.get("/v1/clock")["now_ms"]
    except ControlError as error:
        raise Refused(str(error)) from None
    return now_ms


def _control_api_if_any(url: str | None, token: str | None, ready_file: Path | None) -> Remote | None:
    """Return the control API that the options or the environment select, if any."""
    from ottla.client.ready_line import NotReady, read_ready_file
    from ottla.control.remote import Remote

    if url and token:
        return Remote(url, token)
    if url or token:
        raise Refused("a control API needs both --url and --token; ottla serve --control-port 0 prints both")
    if ready_file is None:
        return None
    try:
        said = read_ready_file(ready_file)
    except NotReady as error:
        if _is_given("ready_file"):
            raise Refused(str(error)) from None
        # OTTLA_READY_FILE may name the ready file of a stopped broker, while the command uses another cluster.
        return None
    brokers = said.get("brokers")
    if isinstance(brokers, dict) and any("control" in broker for broker in brokers.values()):
        note(f"{ready_file} has a control API for each broker; give --url and --token of one broker to include its requests")
    return _control_api_in(said)


def _control_api_of(cluster: KafkaClient, control_api: Remote) -> Remote | None:
    """Return the control API if it belongs to the cluster, else None: the environment may name another cluster."""
    from ottla.control.remote import ControlError

    is_given = any(map(_is_given, ("ready_file", "url", "token")))
    try:
        control_api_cluster_id = control_api.get("/v1/state")["cluster_id"]
    except ControlError as error:
        if is_given:
            raise Refused(str(error)) from None
        note(f"{error}; the requests to that broker are not shown")
        return None
    if control_api_cluster_id == cluster.brokers.cluster_id():
        return control_api
    if is_given:
        raise Refused(
            f"the control API at {control_api.url} belongs to another cluster than --bootstrap; give addresses of one cluster"
        )
    return None


def _bootstrap_of(bootstrap: str, ready_file: Path | None) -> str:
    """Return the ready file's address if --ready-file is given without --bootstrap, else ``bootstrap``."""
    from ottla.cli.health_check import listening_address
    from ottla.client.ready_line import NotReady

    if ready_file is None or not _is_given("ready_file") or _is_given("bootstrap"):
        return bootstrap
    try:
        return listening_address(ready_file)
    except NotReady as error:
        raise Refused(str(error)) from None


def _is_given(name: str) -> bool:
    """Whether the value of an option is from the command line, not from the environment or the default."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE
