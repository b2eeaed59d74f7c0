"""``ottla quota list`` prints every value that may be stored. Clients may set an infinite ``request_percentage``, as in Kafka."""

from __future__ import annotations

import json
from contextlib import nullcontext
from unittest.mock import Mock

import pytest

from ottla.cli import main
from ottla.client.admin.quotas import EntityQuotas

VALUES = {"request_percentage": float("inf"), "controller_mutation_rate": 0.5, "producer_byte_rate": 2.0**63}


@pytest.fixture(autouse=True)
def stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.cli.quota.cluster_at", lambda bootstrap, timeout_s: nullcontext(Mock()))
    # Kafka also stores NaN, which ottla refuses. A directory of Kafka may contain it.
    listed = [EntityQuotas({"user": "u"}, VALUES), EntityQuotas({"user": "v"}, {"request_percentage": float("nan")})]
    monkeypatch.setattr("ottla.client.admin.quotas.list_quotas", lambda brokers, entity: listed)


def test_quota_list_command_lists_infinite_values(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quota", "list"]) == 0
    shown = "request_percentage=Infinity, controller_mutation_rate=0.5, producer_byte_rate=9223372036854775808"
    out = capsys.readouterr().out
    assert shown in out
    assert "request_percentage=NaN" in out


def test_quota_list_command_lists_infinite_values_as_valid_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quota", "list", "--json"]) == 0
    (quotas, adopted) = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert quotas == {"entity": {"user": "u"}, "quotas": VALUES | {"request_percentage": "Infinity"}}
    assert adopted == {"entity": {"user": "v"}, "quotas": {"request_percentage": "NaN"}}
