"""Flags of the jobs: configurable names, flag files, and refused values."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

import ottla.pipeline.running
from ottla.cli import main
from ottla.cli.pipeline import command
from ottla.pipeline import settings
from ottla.pipeline.schemas import MAX_AHEAD_MS, ShopTopics, Terms
from ottla.pipeline.settings import AuditSettings, ExportSettings, GenerateSettings, JobPlace, StreamSettings
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.formats import FORMATS
from ottla.spark.sink.transaction import TRANSACTION_TIMEOUT_MS

JOBS = ("demo", "generate", "shop", "totals", "export", "audit")
PLACE = JobPlace(bootstrap="127.0.0.1:9092", master=None, cores=2)
TERMS = Terms(topics=ShopTopics(), max_ahead_ms=MAX_AHEAD_MS)
RUNS = {"generate": "run_generate", "shop": "run_stream", "totals": "run_stream", "export": "run_export", "audit": "run_audit"}


def told(*arguments: str) -> Any:
    """Return the options that a command line passes to its job, without running the job."""
    (run, last) = RUNS[arguments[0]], []
    function = getattr(ottla.pipeline.running, run)

    def note(*given: Any) -> int:
        inspect.signature(function).bind(*given)
        last.append(given)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ottla.pipeline.running, run, note)
        assert main(["pipeline", *arguments]) == 0
    ((*name, options),) = last
    assert name in ([], [arguments[0]])
    # The constructor does not check types, so msgspec validates the types of the fields.
    msgspec.convert(msgspec.to_builtins(options), type(options), strict=True)
    return options


def topics_of(options: Any) -> ShopTopics:
    topics: ShopTopics = options.topics if isinstance(options, GenerateSettings) else options.terms.topics
    return topics


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return the exit code and the single line of the error message."""
    code = main(["pipeline", *arguments])
    out, err = capsys.readouterr()
    assert out == ""
    (said,) = err.splitlines()
    return f"{code} {said}"


def stream(job: str) -> StreamSettings:
    return StreamSettings(
        place=PLACE,
        format="json",
        transactional_id=job,
        checkpoint=f".ottla/checkpoints/{job}",
        batch_records=100_000,
        transaction_timeout_ms=900_000,
        terms=TERMS,
        run_id=None,
        sink="tasks",
        progress_topic=None,
        state_store="memory",
        forever=False,
        accept_data_loss=False,
    )


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (
            ("generate",),
            GenerateSettings(
                place=PLACE, format="json", rows=200_000, seed=1, partitions=4, transactional_id=None, topics=ShopTopics()
            ),
        ),
        (("shop",), stream("shop")),
        (("totals",), stream("totals")),
        (
            ("export", "--to", "d"),
            ExportSettings(place=PLACE, topic="purchases", to="d", data_dir=None, part_offsets=1_000_000, group=None),
        ),
        (
            ("audit",),
            AuditSettings(place=PLACE, format="json", terms=TERMS, totals=False, export=None, exported_topic="purchases"),
        ),
    ],
)
def test_pipeline_jobs_have_default_options_without_flags(arguments: tuple[str, ...], options: object) -> None:
    assert told(*arguments) == options


def test_every_flag_of_a_pipeline_job_sets_its_option() -> None:
    at = ["--bootstrap", "a:1,b:2", "--master", "spark://m:7077", "--cores", "3"]
    place = JobPlace(bootstrap="a:1,b:2", master="spark://m:7077", cores=3)
    generate = told("generate", *at, "--format", "avro", "--rows=5", "--seed", "-7", "--partitions", "6", "--transactional-id", "g")
    assert generate == GenerateSettings(
        place=place, format="avro", rows=5, seed=-7, partitions=6, transactional_id="g", topics=ShopTopics()
    )
    flags = ["--transactional-id", "t", "--checkpoint", "c", "--batch-records", "9", "--transaction-timeout-ms", "8"]
    flags += ["--max-ahead-ms", "7", "--run-id", "r", "--sink", "driver", "--progress-topic", "m", "--state-store", "rocksdb"]
    assert told("totals", *at, "--format", "avro", *flags, "--forever", "--accept-data-loss") == StreamSettings(
        place=place,
        format="avro",
        transactional_id="t",
        checkpoint="c",
        batch_records=9,
        transaction_timeout_ms=8,
        terms=Terms(topics=ShopTopics(), max_ahead_ms=7),
        run_id="r",
        sink="driver",
        progress_topic="m",
        state_store="rocksdb",
        forever=True,
        accept_data_loss=True,
    )
    export = told("export", *at, "--topic", "t", "--to", "d", "--data-dir", "e", "--part-offsets", "4", "--group", "g")
    assert export == ExportSettings(place=place, topic="t", to="d", data_dir="e", part_offsets=4, group="g")
    audit = told("audit", *at, "--format", "avro", "--max-ahead-ms", "7", "--totals", "--export", "d", "--exported-topic", "x")
    terms = Terms(topics=ShopTopics(), max_ahead_ms=7)
    assert audit == AuditSettings(place=place, format="avro", terms=terms, totals=True, export="d", exported_topic="x")


def test_choices_of_pipeline_flags_equal_those_of_the_job_options() -> None:
    """The command line has its own copy of the choices, so that it need not import Spark."""
    assert sorted(FORMATS) == list(settings.FORMATS)
    assert settings.TRANSACTION_TIMEOUT_MS == TRANSACTION_TIMEOUT_MS


@pytest.mark.parametrize("job", ["generate", "shop", "totals", "audit"])
def test_topic_names_of_pipeline_jobs_are_configurable(job: str, tmp_path: Path) -> None:
    assert topics_of(told(job)) == ShopTopics()
    flags = ["--source-topic", "in", "--invoices-topic", "a", "--shipments-topic", "b", "--dead-letters-topic", "c"]
    assert topics_of(told(job, *flags, "--totals-topic", "d")) == ShopTopics("in", "a", "b", "c", "d")
    file = tmp_path / "pipeline.toml"
    file.write_text('source-topic = "in"\n')
    assert topics_of(told(job, "--config", str(file), "--totals-topic", "d")) == ShopTopics(source="in", totals="d")


def test_pipeline_help_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "--help"]) == 0
    shown = capsys.readouterr().out
    for job in JOBS:
        assert f"\n  {job} " in shown
    assert list(command.list_commands(click.Context(command))) == list(JOBS)


@pytest.mark.parametrize("job", JOBS)
def test_pipeline_help_of_a_job_lists_all_its_flags(capsys: pytest.CaptureFixture[str], job: str) -> None:
    assert main(["pipeline", job, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: ottla pipeline {job} ")
    of_job = command.get_command(click.Context(command), job)
    assert of_job is not None
    for option in of_job.params:
        assert option.opts[-1] in shown
        assert isinstance(option, click.Option)
        assert option.help


def test_pipeline_help_does_not_import_spark() -> None:
    """Importing Spark takes most of a second, and Spark may not be installed."""
    script = """
import sys
from ottla.cli import main
codes = [main(words) for words in (["pipeline", "--help"], ["pipeline", "shop", "--help"], ["pipeline", "shop", "--rows", "1"])]
print("codes", *codes)
print(*sys.modules, sep=chr(10))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "\ncodes 0 0 2\n" in done.stdout
    loaded = set(done.stdout.splitlines())
    heavy = ("pyspark", "pandas", "pyarrow", "numpy", "rich", "confluent_kafka", "ottla.spark", "ottla.protocol", "ottla.client")
    assert not {name for name in loaded if name.startswith(heavy)}


def test_pipeline_demo_with_a_bootstrap_address_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The demo always starts its own broker."""
    assert refused(capsys, "demo", "--bootstrap", "127.0.0.1:9092").startswith("2 ottla pipeline demo: no such option")


def test_state_store_option_of_pipeline_jobs_is_memory_or_rocksdb(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("totals").state_store == "memory"
    assert told("totals", "--state-store", "rocksdb").state_store == "rocksdb"
    assert "2 ottla pipeline totals: --state-store: 'disk' is not one of" in refused(capsys, "totals", "--state-store", "disk")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            [],
            "2 ottla pipeline: no command was given; choose one of demo, generate, shop, totals, export, audit; see ottla"
            " pipeline --help",
        ),
        (["totls"], "2 ottla pipeline: unknown command 'totls'; did you mean 'totals'?"),
        (["shop", "--batch-record", "1"], "2 ottla pipeline shop: no such option"),
        (["shop", "--batch-record", "1"], "--batch-records"),
        (["shop", "more"], "2 ottla pipeline shop: got unexpected extra argument (more)"),
        (["shop", "--bootstrap", "foo"], "2 ottla pipeline shop: --bootstrap: 'foo' is not HOST:PORT"),
        (["shop", "--run-id", ""], "2 ottla pipeline shop: --run-id: a run's id has 1 to 100 characters"),
        (["shop", "--run-id", "x" * 101], "2 ottla pipeline shop: --run-id: a run's id has 1 to 100 characters"),
        (["shop", "--sink", "none"], "2 ottla pipeline shop: --sink: 'none' is not one of 'tasks', 'driver'"),
        (["generate", "--seed", "x"], "2 ottla pipeline generate: --seed: 'x' is not"),
        (["generate", "--rows"], "2 ottla: option '--rows' requires an argument"),
        (["export"], "2 ottla pipeline export: --to is missing"),
        (["audit", "--format", "xml"], "2 ottla pipeline audit: --format: 'xml' is not one of 'avro', 'json'"),
    ],
)
def test_pipeline_usage_errors_are_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in refused(capsys, *arguments)


def test_pipeline_command_line_overrides_the_config_file(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('bootstrap = "a:1"\nbatch-records = 7\nrun-id = 2026-01-01\nforever = true\naccept-data-loss = false\n')
    options = told("shop", "--batch-records", "8", "--config", str(file))
    assert options.place.bootstrap == "a:1"
    assert (options.batch_records, options.run_id, options.forever, options.accept_data_loss) == (8, "2026-01-01", True, False)
    # A flag file may also contain required flags.
    file.write_text('to = "d"\npart-offsets = "5"\n')
    assert (told("export", "--config", str(file)).to, told("export", "--config", str(file)).part_offsets) == ("d", 5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rows = ", "1 ottla: --config {file}: Invalid value"),
        ("a = " + "[" * 5_000, "1 ottla: --config {file}: "),
        ("row = 1", "1 ottla: --config {file}: generate has no setting 'row'; did you mean 'rows'?"),
        ("source_topic = 't'", "did you mean 'source-topic'?"),
        ("config = 'x'", "generate has no setting 'config'"),
        ("help = true", "generate has no setting 'help'"),
        ("[shop]\nrows = 1", "generate has no setting 'shop'"),
        ("rows = -5", "2 ottla pipeline generate: --config: {file}: rows: '-5' is not a number of 1 or more; see"),
        ("rows = 1.5", "rows: '1.5' is not a number of 1 or more"),
        ("rows = true", "rows: expected a text or a number"),
        ("rows = [1]", "rows: expected a text or a number"),
        ("bootstrap = ['a:1']", "bootstrap: expected a text or a number"),
        ("format = 'xml'", "format: 'xml' is not one of"),
    ],
)
def test_pipeline_config_file_errors_name_the_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    # An invalid value is refused although a flag overrides it.
    assert says.format(file=file) in refused(capsys, "generate", "--rows", "1", "--config", str(file))


def test_switch_in_a_pipeline_config_file_must_be_true_or_false(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('totals = "true"')
    assert "totals: expected true or false" in refused(capsys, "audit", "--config", str(tmp_path / "p.toml"))
    assert "1 ottla: --config nowhere.toml: " in refused(capsys, "audit", "--config", "nowhere.toml")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (PipelineError("it is\nso"), "1 ottla: it is so"),
        (ModuleNotFoundError("no", name="pyspark"), "1 ottla: the pipeline needs pyspark: pip install 'ottla[pipeline]'"),
    ],
)
def test_pipeline_job_errors_are_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    def fail(_: object) -> int:
        raise error

    monkeypatch.setattr(ottla.pipeline.running, "run_audit", fail)
    assert refused(capsys, "audit") == says


@pytest.mark.parametrize("code", [0, 2, 143])
def test_pipeline_command_returns_the_exit_code_of_its_job(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(ottla.pipeline.running, "run_audit", lambda _: code)
    monkeypatch.setattr(ottla.pipeline.running, "run_stream", lambda *_: code)
    assert [main(["pipeline", job]) for job in ("audit", "shop", "totals")] == [code] * 3


def test_ctrl_c_in_a_pipeline_job_shows_no_traceback(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(ottla.pipeline.running, "run_audit", interrupted)
    assert main(["pipeline", "audit"]) == 130
    assert capsys.readouterr() == ("", "")


def test_spark_submit_entry_point_accepts_the_same_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ottla/cli/submit.py JOB`` is run as a program, in whatever directory it is installed."""
    import runpy

    import ottla.cli.submit

    monkeypatch.setattr(ottla.pipeline.running, "run_audit", lambda options: 2 if options.totals else 0)
    monkeypatch.setattr(sys, "argv", ["submit.py", "audit", "--totals"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ottla.cli.submit.__file__), run_name="__main__")
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ottla pipeline t", ["totals"]),
        ("ottla pipeline totals --state", ["--state-store"]),
        ("ottla pipeline totals --state-store ", ["memory", "rocksdb"]),
        ("ottla pipeline export --format", []),
        ("ottla pipeline audit --config nowhere.toml --tot", ["--totals", "--totals-topic"]),
    ],
)
def test_shell_completion_lists_options_of_pipeline_jobs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, offered: list[str]
) -> None:
    monkeypatch.setenv("_OTTLA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert main([]) == 0
    assert sorted(capsys.readouterr().out.split()) == sorted(f"plain,{word}" for word in offered)


def test_pipeline_bootstrap_address_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "kafka:1")
    assert told("generate").place.bootstrap == "kafka:1"
    assert told("generate", "--bootstrap", "kafka:2").place.bootstrap == "kafka:2"
    file = tmp_path / "flags.toml"
    file.write_text('bootstrap = "kafka:3"\n')
    assert told("generate", "--config", str(file)).place.bootstrap == "kafka:3", "a flag file overrides the environment"
