"""Flags of the jobs: what a person may call things, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.pipeline.cli import _topics, main, parse
from ottla.pipeline.schemas import Topics


@pytest.mark.parametrize("job", ["generate", "shop", "totals", "audit"])
def test_topics_have_the_names_that_they_are_given(job: str, tmp_path: Path) -> None:
    assert _topics(parse([job])) == Topics()
    flags = ["--source-topic", "in", "--invoices-topic", "a", "--shipments-topic", "b", "--dead-letters-topic", "c"]
    assert _topics(parse([job, *flags, "--totals-topic", "d"])) == Topics("in", "a", "b", "c", "d")
    settings = tmp_path / "pipeline.toml"
    settings.write_text('source-topic = "in"\n')
    assert _topics(parse([job, "--config", str(settings), "--totals-topic", "d"])) == Topics(source="in", totals="d")


def test_help_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    for job in ("demo", "generate", "shop", "totals", "export", "audit"):
        assert f"\n    {job} " in shown


def test_a_demo_on_a_cluster_is_refused() -> None:
    assert main(["demo"]) == 1


def test_where_totals_are_kept_is_one_of_two() -> None:
    assert parse(["totals"]).state_store == "memory"
    assert parse(["totals", "--state-store", "rocksdb"]).state_store == "rocksdb"
    with pytest.raises(SystemExit):
        parse(["totals", "--state-store", "disk"])
