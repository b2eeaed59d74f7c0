"""List commands on a cluster in which one broker does not answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.cli import main
from ottla.client.admin.groups import GroupListing
from ottla.client.admin.transactions import TransactionListing
from ottla.client.errors import ClientError, Unreachable

GROUP = GroupListing(group_id="g", group_type="classic", state="Empty", protocol_type="consumer", coordinator=1)
ID = TransactionListing(transactional_id="t", coordinator=1, producer_id=7, state="Empty")


@pytest.mark.parametrize("found", [True, False])
@pytest.mark.parametrize("flags", [(), ("--json",)])
@pytest.mark.parametrize(
    ("kind", "ask", "listing"), [("group", "groups.list_groups", GROUP), ("txn", "transactions.list_transactions", ID)]
)
def test_commands_report_an_unresponsive_broker_with_the_results_of_other_brokers(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kind: str,
    ask: str,
    listing: GroupListing | TransactionListing,
    flags: tuple[str, ...],
    found: bool,
) -> None:
    def listed(brokers: Any, silent: list[ClientError], **_: Any) -> Any:
        silent.append(Unreachable("broker 2 does not answer"))
        return [listing] if found else []

    monkeypatch.setattr(f"ottla.client.admin.{ask}", listed)
    assert main([kind, "list", *flags]) == 2
    out, err = capsys.readouterr()
    assert err == "ottla: broker 2 does not answer; its groups and transactional ids are not listed\n"
    if flags:
        assert [one["coordinator"] for one in json.loads(out)] == [1] * found
    else:
        assert ("COORDINATOR" in out) == found
