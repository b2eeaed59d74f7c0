"""Types of options, and options that several commands have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ottla import addresses, arguments
from ottla.arguments import BadArgument
from ottla.cli.commands import Refused

if TYPE_CHECKING:
    from ottla.client import ClientError, KafkaClient

    # click's parameter type is generic only since version 8.4.
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "OTTLA_BOOTSTRAP"
READY_FILE_VARIABLE = "OTTLA_READY_FILE"
"""The environment variable with the path of the ready file, so that a container's ``health`` finds the port of ``serve``."""
CLIENT_ID = "ottla-cli"
"""The client id of commands. With this client id, DescribeLogDirs of an ottla broker includes stray directories."""
DEFAULT_TIMEOUT_S = 10.0
LISTED_IN_PART = "If a broker does not answer, list what the other brokers return, and exit with 2."

C = TypeVar("C", bound=Callable[..., Any])


class Checked(_ParamType):
    """An option type with a parsing function that raises `BadArgument`. The value is the function's result, or with
    ``as_written`` the unchanged text."""

    def __init__(self, name: str, check: Callable[[str], Any], *, as_written: bool = False) -> None:
        self.name = name
        self._check = check
        self._as_written = as_written

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            checked = self._check(value)
        except BadArgument as error:
            self.fail(str(error), param, ctx)
        return value if self._as_written else checked


class FilePath(click.Path):
    """A path with the exact bytes of the command line, even if they are not valid UTF-8."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return super().convert(arguments.as_path(value) if isinstance(value, str) else value, param, ctx)


BOOTSTRAP = Checked("addresses", addresses.bootstrap_addresses, as_written=True)
LISTENER = Checked("listener", addresses.split_address, as_written=True)
PORT = Checked("port", addresses.port)
COUNT = Checked("count", arguments.count)
SECONDS = Checked("seconds", arguments.seconds)
PATH = FilePath(path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")


def is_given(name: str) -> bool:
    """Whether an option of the current command is on the command line, and not only set by the environment or a file."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


class FileBeforeVariable(click.Option):
    """An option whose value in a config file takes precedence over its environment variable; click itself prefers the variable."""

    def value_from_envvar(self, ctx: click.Context) -> Any:
        return None if self.name in (ctx.default_map or ()) else super().value_from_envvar(ctx)


def at_bootstrap(command: C) -> C:
    """Add the option for the cluster's address."""
    return click.option(
        "--bootstrap",
        cls=FileBeforeVariable,
        type=BOOTSTRAP,
        default=DEFAULT_BOOTSTRAP,
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT[,...]",
        help=f"Addresses of brokers of ottla or Apache Kafka (default: ${BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP}).",
    )(command)


def with_command_config(command: C) -> C:
    """Add the option ``--command-config``, for the client's credentials."""
    from ottla.cli.command_config import command_config_option

    return command_config_option(command, PATH)


def asks(command: C) -> C:
    """Add the options of a command that uses a cluster: address, credentials, timeout, and output format."""
    return with_command_config(at_bootstrap(with_timeout(json_option(command))))


def with_timeout(command: C) -> C:
    """Add the option for the timeout of requests."""
    return click.option(
        "--timeout-s",
        type=SECONDS,
        default=DEFAULT_TIMEOUT_S,
        metavar="S",
        help=f"Time to wait for a response, in seconds (default: {DEFAULT_TIMEOUT_S:g}).",
    )(command)


@contextmanager
def cluster_at(bootstrap: str, timeout_s: float, config: Path | None = None) -> Iterator[KafkaClient]:
    """Yield a client of the cluster. A `ClientError` in the block ends the command with one line. From this call on Ctrl-C raises
    KeyboardInterrupt. ``config`` replaces the file of ``--command-config``."""
    from ottla.cli.command_config import connecting, has_command_config
    from ottla.client import ClientError, KafkaClient
    from ottla.client.errors import ListenerMismatch
    from ottla.process import interrupt_on_ctrl_c

    interrupt_on_ctrl_c()
    try:
        with KafkaClient(bootstrap, timeout_s, client_id=CLIENT_ID, connecting=connecting(bootstrap, config)) as cluster:
            yield cluster
    except ListenerMismatch as error:
        raise Refused(
            str(error) if has_command_config() or config is not None else f"{error} in a file for --command-config"
        ) from None
    except ClientError as error:
        raise Refused(str(error)) from None


def seen_by(cluster: KafkaClient, listed: Collection[object]) -> str:
    """Return a suffix for messages such as "there are no topics". It is empty unless ACLs may hide topics from the user."""
    from ottla.client.admin.acls import has_authorizer

    return " that this user may describe" if not listed and has_authorizer(cluster.brokers) else ""


def check_all_answered(silent: Iterable[ClientError]) -> None:
    """Raise `Refused` if ``silent`` has errors of brokers whose results the command could not show."""
    if said := "; ".join(map(str, silent)):
        raise Refused(f"{said}; its groups and transactional ids are not listed")


def key_value(text: str) -> tuple[str, str]:
    """Parse ``KEY=VALUE``. Raises `BadArgument`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadArgument(f"{text!r} is not KEY=VALUE")
    return key.strip(), value.strip()


def topic_partition(text: str) -> tuple[str, int]:
    """Parse ``TOPIC:P``. Raises `BadArgument`."""
    topic, partition = topic_and_partition(text)
    if partition is None:
        raise BadArgument(f"{text!r} is not TOPIC:PARTITION, as in orders:0")
    return topic, partition


def topic_and_partition(text: str) -> tuple[str, int | None]:
    """Parse ``TOPIC:P``, or ``TOPIC``, for which the partition is None. Raises `BadArgument`."""
    topic, colon, index = text.partition(":")
    if not topic:
        raise BadArgument(f"{text!r} is not TOPIC or TOPIC:PARTITION, as in orders or orders:0")
    return topic, partition_index(index) if colon else None


def partition_index(text: str) -> int:
    """Parse the number of a partition. Raises `BadArgument`."""
    from ottla.protocol.topic_partition import MAX_PARTITION

    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_PARTITION)) and int(text) <= MAX_PARTITION):
        raise BadArgument(f"{text!r} is not a partition, 0 to {MAX_PARTITION:,}")
    return int(text)


PARTITION = Checked("partition", partition_index)
KEY_VALUE = Checked("assignment", key_value)
TOPIC_PARTITION = Checked("partition", topic_partition)
TOPIC_OR_PARTITION = Checked("topic", topic_and_partition)


def topics_option(help_text: str, *, required: bool = False) -> Callable[[C], C]:
    """Return the repeatable option ``--topic TOPIC[:P]``, which the command gets as ``topics``, pairs of topic and partition or
    None."""
    return click.option(
        "--topic", "topics", type=TOPIC_OR_PARTITION, multiple=True, required=required, metavar="TOPIC[:P]", help=help_text
    )
