"""Error lines and output formats of commands, without a broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ottla.arguments import BadArgument
from ottla.broker.config.first_topic import FirstTopic
from ottla.cli import main
from ottla.cli.consume import line
from ottla.cli.first_topics import first_topic, from_environment
from ottla.cli.output import printable, time_text
from ottla.cli.root import COMMANDS
from ottla.client import ConsumedRecord
from ottla.client.admin.places import Place, place
from ottla.client.durations import duration_text
from ottla.client.records.documents import document, text_or_base64

DEAD = ["--bootstrap", "127.0.0.1:1"]
COPIED = ["--from", "127.0.0.1:1", "--to", "127.0.0.1:1"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run a command that fails. Returns the exit code and its single line on stderr."""
    code = main(list(arguments))
    out, err = capsys.readouterr()
    assert out == ""
    (said,) = err.splitlines()
    return f"{code} {said}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["topik"], "2 ottla: unknown command 'topik'; did you mean 'topic'?"),
        (["topic"], "2 ottla topic: no command was given; choose one of create, list, describe, alter, elect, delete"),
        (["topic", "crate"], "2 ottla topic: unknown command 'crate'; did you mean 'create'?"),
        (["topic", "create"], "2 ottla topic create: TOPIC is missing"),
        (["topic", "create", "t", "--partitions", "0"], "--partitions: '0' is not a number of 1 or more"),
        (["topic", "create", "t", "--config", "x"], "--config: 'x' is not KEY=VALUE"),
        (["topic", "list", "--bootstrap", "foo"], "2 ottla topic list: --bootstrap: 'foo' is not HOST:PORT"),
        (["topic", "list", "--bootstrap", "9092"], "did you mean 127.0.0.1:9092?"),
        (["topic", "list", "--timeout-s", "0"], "is not a number of seconds above 0"),
        (["topic", "list", *DEAD], "2 ottla: asking for the topics: 127.0.0.1:1 does not answer"),
        (["consume", "t", "--from", "yesterday"], "is neither beginning, end, an offset nor a time"),
        (["consume", "t", "--isolation", "some"], "--isolation: 'some' is not one of"),
        (["consume", "t", "--json", "--values"], "give one of them"),
        (["consume", "t", "--format", "%k", "--json"], "--json and --format exclude each other; give one of them"),
        (["consume", "t", "--format", "%z"], "--format: unknown letter %z; the letters are s v S R k K T h t p o and %%"),
        (["consume", "t", "--filter", "kay=1"], "--filter: unknown field 'kay'; the fields are key, value, header.NAME"),
        (["consume", "t", "--last", "100001"], "--last: at most 100,000 are allowed"),
        (["consume", "t", "--follow", "--to", "5"], "--follow and --to exclude each other; give one of them"),
        (["produce", "t", "a", "--file", "b"], "FILE and --file exclude each other; give one of them"),
        (["produce", "t", "--key", "k", "--key-field", "id"], "--key and --key-field exclude each other; give one of them"),
        (["produce", "t", "--key-field", ""], "--key-field must not be empty"),
        (["topic", "alter", "t"], "nothing to alter; give --partitions, --config or --unset"),
        (["topic", "alter", "t", "--config", "a=1", "--unset", "a"], "--config and --unset exclude each other for 'a'"),
        (["record", "delete", "t"], "2 ottla record delete: --before is missing"),
        (["copy", "t", "--from", "127.0.0.1:1"], "2 ottla copy: --to is missing"),
        (["copy", "t", "--from", "127.0.0.1:1", "--to", "127.0.0.1:1"], "127.0.0.1:1 does not answer"),
        (["doctor", "9092"], "'9092' is not HOST:PORT, as in 127.0.0.1:9092; did you mean 127.0.0.1:9092?"),
        (["top", *DEAD], "127.0.0.1:1 does not answer"),
        (["consume", "t", *DEAD], "start a broker there (ottla serve), or give another address"),
        (["produce", "t", "--partition", "x"], "'x' is not a partition, 0 to 2,147,483,647"),
        (["consume", "t", "--partition", "2147483648"], "'2147483648' is not a partition, 0 to 2,147,483,647"),
        (["consume", "t", "--partition", "2147483647", *DEAD], "does not answer"),
        (["txn", "why", "t:2147483648"], "'2147483648' is not a partition, 0 to 2,147,483,647"),
        (["txn", "why", "t:2147483647", *DEAD], "does not answer"),
        (["topic", "create", "t", "--replication-factor", "0"], "'0' is not a number of 1 or more"),
        (["produce", "t", "file", "--value", "x"], "--value and FILE exclude each other"),
        (["produce", "t", "--key", "k", "--key-separator", ":"], "exclude each other"),
        (["produce", "t", "--key-separator", ""], "must not be empty"),
        (["group", "reset", "g"], "2 ottla group reset: --to is missing"),
        (["produce", "t", "--schema", "a.avsc", "--value-schema", "s"], "--schema and --value-schema exclude each other"),
        (["produce", "t", "--value-schema", ":1"], "':1' is not SUBJECT or SUBJECT:VERSION"),
        (
            ["produce", "t", "--value", "x", "--key-schema", "s"],
            "--key-schema encodes keys; give --key, --key-separator or --key-field",
        ),
        (
            ["produce", "t", "--key", "k", "--null-value", "--value-schema", "s"],
            "--null-value and --value-schema exclude each other",
        ),
        (["produce", "t", "--key", "k", "--null-value", "--schema", "a.avsc"], "--null-value and --schema exclude each other"),
        (["produce", "t", "--registry", "http://a:1"], "--registry is for encoded records; give --schema, --value-schema or"),
        (["consume", "t", "--registry", "http://a:1"], "--registry is for decoded values; give --decode as well"),
        (
            ["copy", "t", *COPIED, "--command-config", os.devnull, "--from-config", "a", "--to-config", "b"],
            "leave --command-config out",
        ),
        (["group", "delete-offsets", "g"], "2 ottla group delete-offsets: --topic is missing"),
        (["group", "delete-offsets", "g", "--topic", "t:-1"], "'-1' is not a partition"),
        (["group", "reset", "g", "--to", "end", "--topic", "t:x"], "'x' is not a partition"),
        (["group", "reset", "g", "--to", "end", "--topic", ":1"], "is not TOPIC or TOPIC:PARTITION"),
        (["txn", "abort"], "2 ottla txn abort: give TRANSACTIONAL_ID, or both --partition and --start-offset"),
        (["txn", "abort", "x", "--partition", "t:0", "--start-offset", "1"], "give TRANSACTIONAL_ID, or both"),
        (["txn", "abort", "--partition", "t:0"], "give TRANSACTIONAL_ID, or both"),
        (["txn", "abort", "--partition", "t", "--start-offset", "1"], "is not TOPIC:PARTITION, as in orders:0"),
        (["config", "get", "shoe", "t"], "KIND: 'shoe' is not one of"),
        (["config", "set", "topic", "t"], "give KEY=VALUE or --unset KEY"),
        (["config", "set", "topic", "t", "x"], "'x' is not KEY=VALUE"),
        (["quota", "set", "--user", "u"], "KEY=NUMBER... is missing"),
        (["quota", "set", "producer_byte_rate=1"], "give --user, --client-id, --ip or their defaults"),
        (["quota", "set", "--user", "u", "producer_byte_rate"], "'producer_byte_rate' is not KEY=VALUE"),
        (["quota", "set", "--user", "u", "producer_byte_rate=0"], "is not KEY=NUMBER with a number above 0"),
        (["quota", "set", "--user", "u", "producer_byte_rate=nan"], "is not KEY=NUMBER with a number above 0"),
        (["quota", "set", "--user", "u", "producer_byte_rate=-1"], "is not KEY=NUMBER with a number above 0"),
        (["quota", "set", "--user", "", "producer_byte_rate=1"], "--user: expected a name; give --user-defaults"),
        (["quota", "set", "--user", "u", "--user-defaults", "a=1"], "--user and --user-defaults exclude each other"),
        (["quota", "set", "--user", "u", "--ip", "::1", "a=1"], "an address and a user or client id exclude each other"),
        (["quota", "remove"], "give --user, --client-id, --ip or their defaults"),
        (["quota", "list", *DEAD], "2 ottla: asking for quotas: 127.0.0.1:1 does not answer"),
        (["completion", "tcsh"], "is not one of 'bash', 'zsh', 'fish'"),
        (["serve", "--topic", "orders:many"], "2 ottla serve: --topic: 'orders:many': 'many' is not a number of partitions"),
        (["serve", "--topic", ":3"], "has no name"),
        (["serve", "--topic", "orders:3:compact"], "give NAME:PARTITIONS[:KEY=VALUE]"),
        (["health", "--bootstrap", "a:1", "--ready-file", "f"], "exclude each other"),
        (["graduate", "--data-dir", "d"], "give one of --to, --in-place and --dry-run; none was given"),
        (["graduate", "--data-dir", "d", "--to", "k", "--dry-run"], "--to and --dry-run were given"),
    ],
)
def test_every_command_reports_usage_errors_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


def test_environment_may_name_a_registry_that_a_command_does_not_use(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_SCHEMA_REGISTRY", "http://127.0.0.1:2")
    for command in (["consume", "t"], ["produce", "t", "--value", "x"]):
        assert "127.0.0.1:1 does not answer" in refused(capsys, *command, *DEAD)


def test_commands_read_the_bootstrap_address_from_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "127.0.0.1:2")
    assert "127.0.0.1:2 does not answer" in refused(capsys, "cluster")
    assert "127.0.0.1:1 does not answer" in refused(capsys, "cluster", *DEAD)
    assert "127.0.0.1:2 does not answer" in refused(capsys, "health")
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "foo")
    assert "is not HOST:PORT" in refused(capsys, "cluster")
    assert "$OTTLA_BOOTSTRAP: 'foo' is not HOST:PORT" in refused(capsys, "health")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_cli_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: ottla {name}")


@pytest.mark.parametrize(
    ("shell", "says"), [("bash", "complete -o nosort"), ("zsh", "#compdef ottla"), ("fish", "complete --no-files")]
)
def test_completion_command_prints_a_script_for_each_shell(capsys: pytest.CaptureFixture[str], shell: str, says: str) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert says in text
    assert f"_OTTLA_COMPLETE={shell}_complete" in text


def test_shell_completion_lists_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_OTTLA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "ottla topic de")
    monkeypatch.setenv("COMP_CWORD", "2")
    assert main([]) == 0
    assert capsys.readouterr().out.split() == ["plain,describe", "plain,delete"]


def test_cli_help_imports_no_command_module() -> None:
    """``ottla --help`` must start fast, so it imports neither the client nor the broker nor the table library."""
    script = "import sys; from ottla.cli import main; main(['--help']); print(*sys.modules, sep=chr(10))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(done.stdout.splitlines())
    assert not {name for name in loaded if name.startswith(("rich", "structlog", "ottla.client", "ottla.broker", "ottla.protocol"))}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Place(kind="beginning")),
        ("end", Place(kind="end")),
        ("0", Place(kind="offset")),
        ("4711", Place(kind="offset", number=4711)),
        ("20260101", Place(kind="offset", number=20260101)),
        ("1970-01-01T00:00:01Z", Place(kind="time", number=1_000)),
        ("1970-01-01T01:00:00.250+01:00", Place(kind="time", number=250)),
        ("1970-01-02", Place(kind="time", number=86_400_000)),
    ],
)
def test_offset_and_date_arguments_of_commands_are_parsed(text: str, expected: Place) -> None:
    assert place(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "99999999999999999999", "1.5", "\u0661", "2026-13-01", "start"])
def test_invalid_offset_and_date_arguments_of_commands_are_refused(text: str) -> None:
    with pytest.raises(BadArgument, match="is neither"):
        place(text)


def test_kafka_create_topics_variable_is_parsed() -> None:
    said = " a:1:1,b:3:2:compact ,\nc"
    assert [(t.name, t.partitions, t.configs) for t in from_environment({"KAFKA_CREATE_TOPICS": said})] == [
        ("a", 1, {}),
        ("b", 3, {"cleanup.policy": "compact"}),
        ("c", 1, {}),
    ]
    lines = {"KAFKA_CREATE_TOPICS": "a:1:1\nb:2:1", "KAFKA_CREATE_TOPICS_SEPARATOR": "$'\\n'"}
    assert [t.name for t in from_environment(lines)] == ["a", "b"]
    assert from_environment({}) == []


@pytest.mark.parametrize("text", ["a:x:1", "a:1:x", "a:0:1", ":1:1", "a:1:1:compact:more"])
def test_invalid_kafka_create_topics_entries_are_refused(text: str) -> None:
    with pytest.raises(BadArgument):
        from_environment({"KAFKA_CREATE_TOPICS": text})


def test_topic_option_of_serve_accepts_partition_count_and_configs() -> None:
    text = "orders:3:cleanup.policy=compact,delete:retention.ms=1"
    configs = {"cleanup.policy": "compact,delete", "retention.ms": "1"}
    assert first_topic(text) == FirstTopic(name="orders", partitions=3, configs=configs, said=f"--topic {text}")
    assert first_topic("orders").partitions == 1


RECORD = ConsumedRecord(
    topic="t",
    partition=1,
    offset=5,
    timestamp_ms=1_000,
    key=b"k\x1b[2J",
    value=b"\xff\n",
    headers=[("h", None)],
    producer_id=7,
    producer_epoch=2,
    transactional=True,
    control=None,
)


def test_consume_command_escapes_control_characters_in_records() -> None:
    assert line(RECORD) == "1:5\t1970-01-01T00:00:01.000Z\tk\\x1b[2J\t\\xff\\n\th=-"


def test_json_output_of_a_record_keeps_all_bytes() -> None:
    shown = json.loads(json.dumps(document(RECORD)))
    assert (shown["key"], shown["value"], shown["headers"]) == ("k\x1b[2J", {"base64": "/wo="}, [["h", None]])


@pytest.mark.parametrize(("ms", "text"), [(None, "-"), (-1, "-"), (0, "1970-01-01T00:00:00.000Z"), (1 << 62, str(1 << 62))])
def test_commands_print_timestamps_in_utc_with_milliseconds(ms: int | None, text: str) -> None:
    assert time_text(ms) == text


def test_commands_print_durations_with_units_and_escape_control_characters() -> None:
    assert [duration_text(ms) for ms in (1_500, 61_000, 3_660_000)] == ["1.5 s", "1 min 1 s", "1 h 1 min"]
    assert (printable(None), printable("a\tb")) == ("-", "a\\tb")
    assert (text_or_base64(None), text_or_base64(b"x")) == (None, "x")
