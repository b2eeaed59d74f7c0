"""``ottla dump``: prints the contents of files of a data directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands import Refused
from ottla.cli.options import PATH
from ottla.cli.output import note, printable, show_json, time_text

if TYPE_CHECKING:
    from ottla.dump.logs import Entry

NOT_SOUND = 1
HELP = """Print the contents of files of ottla or Apache Kafka: logs with their batches and records, offset, time and transaction
indexes, producer snapshots, checkpoints. Records of __consumer_offsets, __transaction_state, __share_group_state and
__cluster_metadata are decoded. For a directory, print each of its files. Nothing is written, and the broker may be running.

Exit with 0 if everything that was read is valid, else with 1."""


@click.command("dump", help=HELP)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option("--no-records", is_flag=True, help="Print batches and markers without their records.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document per line.")
def command(files: tuple[Path, ...], no_records: bool, as_json: bool) -> int:
    from ottla.dump.files import entries
    from ottla.process import interrupt_on_ctrl_c
    from ottla.storage.filesystem import described
    from ottla.storage.real_filesystem import RealFilesystem

    interrupt_on_ctrl_c()
    fs, is_sound = RealFilesystem(read_only=True), True
    for path in _wanted(files):
        if not as_json:
            click.echo(f"{printable(str(path))}:")
        try:
            for entry in entries(fs, str(path.absolute()), with_records=not no_records):
                is_sound = is_sound and entry["kind"] != "unsound"
                if as_json:
                    show_json({"file": str(path), **entry})
                else:
                    click.echo(f"  {line(entry)}")
        except BrokenPipeError:
            raise
        except FileNotFoundError:
            # A running broker removed the file after it was listed.
            note(f"{path} was deleted meanwhile")
        except OSError as error:
            raise Refused(described(error), exit_code=NOT_SOUND) from None
    return 0 if is_sound else NOT_SOUND


def _wanted(files: tuple[Path, ...]) -> Iterator[Path]:
    from ottla.dump.files import is_known

    for path in files:
        if path.is_dir():
            try:
                inside = sorted(one for one in path.iterdir() if one.is_file() and is_known(one.name))
            except OSError as error:
                raise Refused(f"cannot read {path}: {error.strerror}") from None
            if not inside:
                raise Refused(f"{path} has no files of a broker; give a partition's directory or a file")
            yield from inside
        elif not path.exists():
            raise Refused(f"{path} does not exist")
        elif not is_known(path.name):
            raise Refused(f"{path} is not named like a file of a broker, such as {0:020d}.log")
        else:
            yield path


def line(entry: Entry) -> str:
    """Format a part of a file, such as a batch or a record, as a line: its kind, then its fields with their names."""
    kind, rest = entry["kind"], {name: value for name, value in entry.items() if name != "kind"}
    if kind == "line":
        return printable(rest["text"])
    shown = (f"{name.removesuffix('_ms')} {_text(name, value)}" for name, value in rest.items())
    return f"{'  ' if kind == 'record' else ''}{kind}  " + "  ".join(shown)


def _text(name: str, value: Any) -> str:
    if name.endswith("timestamp_ms"):
        return time_text(value)
    if isinstance(value, dict | list):
        return _nested(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    return printable(value) if value is None or isinstance(value, bytes | str) else str(value)


def _nested(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_nested(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_nested, value)) + "]"
    return printable(value) if value is None or isinstance(value, bytes | str) else str(value)
