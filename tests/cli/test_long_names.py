"""Very long group and transactional ids: tables shorten them and remain readable, and JSON output contains them in full."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.cli import main
from ottla.cli.output import MAX_NAME_CHARACTERS
from ottla.client.admin.groups import GroupListing
from ottla.client.admin.transactions import TransactionListing

LONG = "x" * 10_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with two groups and two transactional ids, in each case one with a long and one with a short name."""
    groups = [
        GroupListing(group_id=name, group_type="classic", state="Empty", protocol_type="consumer", coordinator=1)
        for name in (LONG, "g")
    ]
    ids = [TransactionListing(transactional_id=name, coordinator=1, producer_id=7, state="Empty") for name in (LONG, "t")]

    def listed(value: Any) -> Any:
        return lambda *_, **__: value

    monkeypatch.setattr("ottla.client.admin.groups.list_groups", listed(groups))
    monkeypatch.setattr("ottla.client.admin.transactions.list_transactions", listed(ids))


@pytest.mark.parametrize(("kind", "key"), [("group", "group"), ("txn", "transactional_id")])
def test_long_topic_name_does_not_widen_the_cli_table(
    cluster: None, capsys: pytest.CaptureFixture[str], kind: str, key: str
) -> None:
    assert main([kind, "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < MAX_NAME_CHARACTERS + 60
    assert lines[1].startswith("x" * (MAX_NAME_CHARACTERS - 3) + "... ")
    assert main([kind, "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0][key] == LONG
