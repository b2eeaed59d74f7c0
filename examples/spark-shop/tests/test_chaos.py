"""Tests of a chaos run's plan and picture, and a short chaos run with the mark ``chaos``."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from shop.chaos import BROKER, DRIVER, EXECUTOR, ChaosFailed, Events, Plan, as_toml, run
from shop.findings import Audit, Finding, Stage
from shop.picture import drawn
from shop.settings import Settings, read

KILLS = 3
ORDERS = 180


def test_each_kind_is_killed_once_before_any_is_repeated() -> None:
    plan = Plan(seed=5, kills=7)
    assert plan.victims() == Plan(seed=5, kills=7).victims()
    assert set(Counter(plan.victims()[:3]).values()) == {1}
    assert len(plan.victims()) == 7
    assert {tuple(Plan(seed=seed, kills=3).victims()) for seed in range(50)} > {(BROKER, DRIVER, EXECUTOR)}


def test_driver_reads_the_settings_of_the_run(tmp_path: Path) -> None:
    settings = Settings(bootstrap="127.0.0.1:1", checkpoints='/tmp/a "b"', cores=7)
    (tmp_path / "shop.toml").write_text(as_toml(settings))
    assert read(str(tmp_path / "shop.toml"), {}) == settings


def test_directory_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(ChaosFailed, match="is not empty"):
        run(Settings(), Plan(), str(tmp_path))
    with pytest.raises(ChaosFailed, match=r"the directory of /nowhere/x\.svg does not exist"):
        run(Settings(), Plan(), str(tmp_path / "run"), "/nowhere/x.svg")


def picture(*findings: Finding) -> str:
    audited = Audit((Stage("distinct", 3, {"clean": 2, "late": 1, "repeated": 0}, findings),))
    events = Events(
        1_000, kills=[(3_000, DRIVER), (9_000, BROKER)], lives=[(DRIVER, 1_000, 3_000), (BROKER, 1_000, 9_000)], ended_ms=11_000
    )
    events.commits = [(2_000, "distinct.orders"), (5_000, "distinct.orders")]
    return drawn(events, audited, "a < b")


def test_picture_has_all_kills_commits_and_the_result() -> None:
    root = ElementTree.fromstring(picture())
    tags = Counter(element.tag.rpartition("}")[2] for element in root.iter())
    texts = [element.text for element in root.iter() if element.text and element.text.strip()]
    assert tags["path"] == 2, "one cross for each kill"
    assert len([1 for element in root.iter() if element.get("stroke-width") == "3" and element.tag.endswith("line")]) == 2
    assert "a < b" in texts
    assert "distinct: 3 inputs = 2 clean, 1 late" in texts
    assert texts[-1] == "sound: each record is accounted for once"


def test_picture_shows_an_unsound_audit() -> None:
    text = picture(Finding("orders twice", 4, ("o-1",)))
    assert "orders twice: 4" in text
    assert "not sound" in text


@pytest.mark.chaos
def test_kills_of_driver_executor_and_broker_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    said: list[str] = []
    svg = tmp_path / "chaos.svg"
    plan = Plan(seed=1, kills=KILLS, orders=ORDERS)
    assert run(replace(Settings(), cores=1), plan, str(tmp_path / "run"), str(svg), said.append), "\n".join(said)
    assert sum("kill the" in line for line in said) == KILLS
    assert ElementTree.fromstring(svg.read_text()).tag.endswith("svg")
