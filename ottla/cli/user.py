"""``ottla user``: lists, adds and removes users of SASL SCRAM."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import PATH, asks, cluster_at
from ottla.cli.output import note, short, show_json, show_line, show_table

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MAX_PASSWORD_BYTES = 1 << 16
ADD_HELP = """Add a user of SCRAM, or change the password. The password is read from a terminal without showing it, from a file, or
from the first line of stdin, so that other users of the machine do not see it. The brokers get only salted hashes.

The mechanisms are set one after the other, as Kafka requires. If two commands change the password of the same user at the same
time, its mechanisms may end with different passwords; run one of the commands again."""

mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="Mechanism; repeatable (default: both).",
)


@click.group("user", cls=CommandGroup, help="List, add and remove users of SASL SCRAM.")
def command() -> None:
    pass


@command.command("add", help=ADD_HELP)
@click.argument("name", metavar="NAME")
@click.option("--password-file", type=PATH, metavar="FILE", help="File whose first line is the password; - is stdin.")
@mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(4_096, 16_384),
    default=4_096,
    metavar="N",
    help="Number of SCRAM iterations (default: 4096).",
)
@asks
def add(
    name: str,
    password_file: Path | None,
    mechanisms: Sequence[str],
    iterations: int,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.users import set_password

    password = _password(name, password_file)
    with cluster_at(bootstrap, timeout_s) as cluster:
        set_password(cluster.brokers, name, password, mechanisms or MECHANISMS, iterations)
    if as_json:
        show_json({"user": name, "mechanisms": list(mechanisms or MECHANISMS), "iterations": iterations})
    else:
        show_line(f"user {name} can authenticate by {' and '.join(mechanisms or MECHANISMS)}")


def _password(name: str, file: Path | None) -> str:
    if file is None and sys.stdin.isatty():
        return str(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
    try:
        if file is None or str(file) == "-":
            data = sys.stdin.buffer.readline(MAX_PASSWORD_BYTES)
        else:
            with file.open("rb") as opened:
                data = opened.readline(MAX_PASSWORD_BYTES)
        password = data.decode().rstrip("\r\n")
    except OSError as error:
        raise Refused(f"--password-file: cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Refused("the password is not UTF-8 text") from None
    if not password:
        raise Refused("the password is empty; give it on the first line of stdin, or of --password-file")
    return password


@command.command("list", help="List users of SCRAM with their mechanisms.")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@asks
def list_(names: Sequence[str], bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin.users import list_users

    with cluster_at(bootstrap, timeout_s) as cluster:
        users = list_users(cluster.brokers, names)
    if as_json:
        show_json([{"user": user.name, "iterations": dict(user.iterations)} for user in users])
    elif users:
        rows = [(short(user.name), mechanism, count) for user in users for mechanism, count in user.iterations.items()]
        show_table(["USER", "MECHANISM", "ITERATIONS"], rows)
    else:
        note("there are no users of SCRAM; ottla user add adds one")


@command.command("remove", help="Remove users of SCRAM. Connections that are authenticated stay open.")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@mechanism_option
@asks
def remove(names: Sequence[str], mechanisms: Sequence[str], bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin.users import remove_user

    with cluster_at(bootstrap, timeout_s) as cluster:
        for name in names:
            remove_user(cluster.brokers, name, mechanisms)
            if not as_json:
                show_line(f"user {name} was removed" + (f" from {' and '.join(mechanisms)}" if mechanisms else ""))
    if as_json:
        show_json({"removed": list(names)})
