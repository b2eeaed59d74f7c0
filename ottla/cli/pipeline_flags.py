"""Options that several jobs of ``ottla pipeline`` have, the settings built from them, and the TOML file with values for them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from ottla.arguments import BadArgument
from ottla.cli.commands import Refused
from ottla.cli.options import COUNT, PATH, Checked, at_bootstrap
from ottla.pipeline.schemas import MAX_AHEAD_MS, MAX_RUN_CHARACTERS, ShopTopics, Terms
from ottla.pipeline.settings import FORMATS, SINKS, STATE_STORES, TRANSACTION_TIMEOUT_MS, JobPlace

C = TypeVar("C", bound=Callable[..., Any])
_CONFIG = "--config"

format_option = click.option(
    "--format", type=click.Choice(FORMATS), default="json", help="Format of record values (default: json)."
)


def _run_id(text: str) -> str:
    if not text or len(text) > MAX_RUN_CHARACTERS:
        raise BadArgument(f"a run's id has 1 to {MAX_RUN_CHARACTERS} characters, because every record contains it")
    return text


RUN_ID = Checked("run", _run_id)


def placed(command: C) -> C:
    """Add the config file and the options for the cluster and Spark. The command receives them as the argument ``place``."""
    packed = _packing(command, "place", JobPlace, JobPlace.__struct_fields__)
    packed = click.option("--cores", type=COUNT, default=2, metavar="N", help="Cores of this machine to use (default: 2).")(packed)
    packed = click.option("--master", metavar="URL", help="Spark master (default: this machine, or the one of spark-submit).")(
        packed
    )
    packed = click.option(
        _CONFIG,
        type=PATH,
        is_eager=True,
        expose_value=False,
        callback=_take_file,
        metavar="FILE.toml",
        help="File with options by name; options of the command line take precedence.",
    )(packed)
    return at_bootstrap(packed)


def named_topics(command: C) -> C:
    """Add the options for the names of the shop's topics. The command receives them as the argument ``topics``."""
    names = msgspec.structs.asdict(ShopTopics())

    def pack(**given: str) -> ShopTopics:
        return ShopTopics(**{part: given[f"{part}_topic"] for part in names})

    packed = _packing(command, "topics", pack, [f"{part}_topic" for part in names])
    for part, name in reversed(names.items()):
        flag = f"--{part.replace('_', '-')}-topic"
        packed = click.option(
            flag, default=name, metavar="TOPIC", help=f"Topic of the {name.replace('-', ' ')} (default: {name})."
        )(packed)
    return packed


def on_terms(command: C) -> C:
    """Add the options that must be equal for a job and the audit of its output. The command receives them as the argument
    ``terms``."""
    packed = _packing(command, "terms", Terms, ("topics", "max_ahead_ms", "deduplicate"))
    packed = click.option(
        "--deduplicate",
        is_flag=True,
        help="Count purchases with equal fields only once. Cannot change after the first batch of a checkpoint.",
    )(packed)
    packed = click.option(
        "--max-ahead-ms",
        type=COUNT,
        default=MAX_AHEAD_MS,
        metavar="MS",
        help="Maximum time by which a purchase may be ahead of its record's timestamp, else it is a dead letter (default: 1 hour).",
    )(packed)
    return named_topics(packed)


def streaming(name: str) -> Callable[[C], C]:
    """Add the options of a streaming job, which reads a topic and writes other topics."""
    checkpoint = f".ottla/checkpoints/{name}"
    flags: tuple[Callable[[C], C], ...] = (
        placed,
        format_option,
        click.option("--transactional-id", default=name, metavar="ID", help=f"Transactional id of the job (default: {name})."),
        click.option(
            "--checkpoint", default=checkpoint, metavar="DIR", help=f"Spark checkpoint of this job (default: {checkpoint})."
        ),
        click.option(
            "--batch-records",
            type=COUNT,
            default=100_000,
            metavar="N",
            help="Maximum number of records per batch (default: 100000).",
        ),
        click.option(
            "--transaction-timeout-ms",
            type=COUNT,
            default=TRANSACTION_TIMEOUT_MS,
            metavar="MS",
            help="Transaction timeout for a batch (default: 15 min).",
        ),
        on_terms,
        click.option(
            "--run-id",
            type=RUN_ID,
            metavar="ID",
            help="Run id in the headers of all records that are written (default: a new id).",
        ),
        click.option(
            "--sink",
            type=click.Choice(SINKS),
            default="tasks",
            help="Processes that write the records; driver works without transaction.version 2 (default: tasks).",
        ),
        click.option(
            "--progress-topic",
            metavar="TOPIC",
            help="Compacted topic for the job's progress, created if missing; none: use only the group (default: ottla-progress).",
        ),
        click.option(
            "--state-store",
            type=click.Choice(tuple(STATE_STORES)),
            default="memory",
            help="Store of the totals; rocksdb for millions of keys (default: memory).",
        ),
        click.option("--forever", is_flag=True, help="Continue after everything is read, until Ctrl-C."),
        click.option(
            "--accept-data-loss", is_flag=True, help="Continue after records that retention removed before they were read."
        ),
    )

    def flagged(command: C) -> C:
        for flag in reversed(flags):
            command = flag(command)
        return command

    return flagged


def _packing(command: C, name: str, pack: Callable[..., Any], parts: Any) -> C:
    """Replace the parameters ``parts`` of a command by one parameter ``name``, whose value ``pack`` builds from them."""

    @wraps(command)
    def packed(**given: Any) -> Any:
        taken = {part: given.pop(part) for part in parts}
        return command(**given, **{name: pack(**taken)})

    return packed  # type: ignore[return-value]


def _take_file(context: click.Context, parameter: click.Parameter, file: Path | None) -> None:
    """Make the values of the config file the defaults of the command. All values are checked, even if an option overrides them.

    Raises `Refused` if the file cannot be parsed, and `click.BadParameter` for an invalid value.
    """
    if file is None or context.resilient_parsing:
        return
    try:
        settings = tomllib.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{_CONFIG} {file}: {error}", exit_code=1) from None
    options = {
        option.opts[-1].removeprefix("--"): option
        for option in context.command.params
        if isinstance(option, click.Option) and option is not parameter
    }
    defaults: dict[str, Any] = {}
    for name, value in settings.items():
        option = options.get(name)
        if option is None:
            near = get_close_matches(name, options, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise Refused(f"{_CONFIG} {file}: {context.info_name} has no setting {name!r}{hint}", exit_code=1)
        try:
            defaults[str(option.name)] = _value(option, value, context)
        except click.BadParameter as error:
            raise click.BadParameter(f"{file}: {name}: {error.message}", context, parameter) from None
    context.default_map = defaults


def _value(option: click.Option, value: Any, context: click.Context) -> Any:
    """Return a TOML value as `click` expects it on the command line. Raises `click.BadParameter`."""
    if option.is_flag != isinstance(value, bool):
        raise click.BadParameter(f"expected {'true or false' if option.is_flag else 'a text or a number'}")
    if option.is_flag:
        return value
    if isinstance(value, list | dict):
        raise click.BadParameter("expected a text or a number")
    option.type.convert(str(value), option, context)
    return str(value)
