"""Output of the commands ``doctor`` and ``spark-doctor``, as lines and as JSON."""

from __future__ import annotations

import json

import pytest

from ottla.cli import main
from ottla.cli.findings import show_findings
from ottla.client.finding import failed, ok, warning

DEAD = "127.0.0.1:1"


def test_doctor_findings_are_printed_as_lines_with_their_remedy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    findings = [ok("TCP", "it answers"), warning("clock, by topic out", "ahead " * 12, "set it"), failed("a\x1b", "b\x1b", "c")]
    assert show_findings(DEAD, findings, as_json=False) == ["a\x1b"]
    assert capsys.readouterr().out.splitlines() == [
        "ok       TCP        it answers",
        "warning  clock, by topic out ahead ahead ahead ahead ahead ahead ahead",
        "                    ahead ahead ahead ahead ahead",
        "                    -> set it",
        "failed   a\\x1b      b\\x1b",
        "                    -> c",
    ]


@pytest.mark.parametrize("command", [["doctor", DEAD], ["spark", "doctor", "--bootstrap", DEAD, "--transactional-id", "x"]])
def test_broker_and_spark_doctor_print_one_json_document(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if command[0] == "spark":
        pytest.importorskip("pyarrow")
    assert main([*command, "--timeout-s", "0.1", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (list(document), document["bootstrap"], document["healthy"]) == (["bootstrap", "healthy", "checks"], DEAD, False)
    for check in document["checks"]:
        assert list(check) == ["check", "status", "text", "remedy"]
        assert check["status"] in ("ok", "warning", "failed")
        assert (check["remedy"] is None) == (check["status"] == "ok")
