"""Tests of the commands: a user's error is one line, and repeated commands create nothing twice."""

from __future__ import annotations

import pytest
from shop.__main__ import main
from shop.schemas import ORDERS, PAYMENTS, PRODUCTS, TOPICS

from ottla import Broker


@pytest.fixture
def bootstrap(ottla: Broker, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla.bootstrap)
    return ottla.bootstrap


@pytest.mark.ottla(fresh=True)
def test_topics_are_created_once(ottla: Broker, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topics"]) == 0
    with ottla.open_client() as cluster:
        assert {listing.name for listing in cluster.topics()} == {*TOPICS, PRODUCTS}
    assert main(["topics"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "all topics exist"


@pytest.mark.ottla(fresh=True)
def test_orders_are_generated_once(ottla: Broker, bootstrap: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", "--orders", "50"]) == 0
    orders, payments = len(ottla.records(ORDERS)), len(ottla.records(PAYMENTS))
    assert orders >= 50
    assert f"{orders + payments + len(ottla.records(PRODUCTS))} records written" in capsys.readouterr().out
    assert main(["generate", "--orders", "50"]) == 0
    assert len(ottla.records(ORDERS)) == orders
    assert "topic orders has records, so none are generated" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "variables", "message"),
    [
        (["run", "invoice"], {}, "shop: unknown job invoice; the jobs are distinct, invoices, revenue, settlements"),
        (["--config", "nowhere.toml", "topics"], {}, "shop: nowhere.toml: "),
        (["topics"], {"SHOP_CORES": "0"}, "shop: $SHOP_CORES is 0; expected a number from 1"),
        (["topics"], {"OTTLA_BOOTSTRAP": "127.0.0.1:1"}, "127.0.0.1:1"),
        (["topics"], {"OTTLA_BOOTSTRAP": "nowhere"}, "nowhere"),
        (["run"], {"SHOP_KAFKA_SECURITY_PROTOCOL": "TLS"}, "security.protocol"),
    ],
)
def test_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    variables: dict[str, str],
    message: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(arguments) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("shop: ")
    assert message in line
