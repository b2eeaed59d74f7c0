"""docs/rules.md is complete: it has every rule that tests refer to, and every rule has a test or a reason for having none."""

from __future__ import annotations

import pytest

from tools import conformance, rules

TEXTS = [
    path
    for room in ("ottla", "tests", "tools", "benchmarks", "docs")
    for path in sorted((rules.ROOT / room).rglob("*"))
    if path.suffix in {".py", ".txt", ".md", ".schema"} and path != rules.ROOT / "tests/tools/test_rules.py"
] + sorted(rules.ROOT.glob("*.md"))


@pytest.mark.full
def test_every_referenced_conformance_rule_id_exists() -> None:
    unknown = {str(path.relative_to(rules.ROOT)): rules.named_in(path.read_text()) - rules.known() for path in TEXTS}
    assert {path: ids for path, ids in unknown.items() if ids} == {}
    assert rules.marked() <= rules.known(), "a test is marked with an unknown rule id"


@pytest.mark.full
def test_every_conformance_rule_is_tested_or_has_a_reason_why_not() -> None:
    assert rules.marked() | set(rules.not_run()) == rules.known()
    assert rules.marked() & set(rules.not_run()) == set(), "a tested rule is also listed as not tested"


@pytest.mark.parametrize(
    "line",
    [
        "- CRD-12 has no anchor",
        '- <a id="crd-13"></a>**CRD-12** has another rule\'s anchor.',
        '- <a id="crd-01"></a>**CRD-01** stands here twice.\n- <a id="crd-01"></a>**CRD-01** stands here twice.',
    ],
)
def test_invalid_line_of_the_conformance_rules_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="no rule"):
        rules.by_section(f"# Rules\n\n## G. Coordinator\n\n{line}\n")


def test_conformance_rule_ids_are_distinguished_from_similar_text() -> None:
    assert rules.named_in("KIP-98 (CRD-12, STO-99), KAFKA-20785, UTF-16, SUBEND-10") == {"CRD-12", "STO-99"}


def test_conformance_rule_ids_in_documentation_pages_become_links() -> None:
    assert rules.link("**CRD-12, KIP-98.**") == "**[CRD-12](rules.md#crd-12), KIP-98.**"


@pytest.mark.smoke
def test_conformance_scoreboard_is_up_to_date() -> None:
    page = conformance.TARGET.read_text()
    assert conformance.document(conformance.board_on(page)) == page, "the scoreboard is outdated; run make generate"


@pytest.mark.full
def test_conformance_scoreboard_counts_results_by_section() -> None:
    results = [
        {"test": "a", "entries": ["CRD-12", "MRK-01"], "target": "kafka", "outcome": "passed"},
        {"test": "b", "entries": ["CRD-01"], "target": "kafka", "outcome": "failed"},
    ]
    board = conformance.board_of(results)
    rows = {row[0]: row[1:] for row in conformance.table(board)}
    assert board.failures == ["b"]
    assert rows["G. Coordinator log, restarts, expiry, timeouts"][-3:] == ["–", "–", "1 of 2"]
    assert conformance.table(conformance.board_on(conformance.document(board))) == conformance.table(board)


def test_sections_of_the_conformance_rules_are_selected_by_letter() -> None:
    assert rules.sections_of("t, V") == ["T. Quotas of clients", "V. Delegation tokens"]
    with pytest.raises(ValueError, match=r"'Z' is no part of rules\.md; the parts are A, B, C"):
        rules.sections_of("T,Z")


@pytest.mark.full
def test_scoreboard_update_of_one_section_keeps_results_of_other_sections() -> None:
    page = conformance.TARGET.read_text()
    results = [{"test": "a", "entries": ["QTA-01"], "target": "kafka", "outcome": "failed"}]
    merged = conformance.merged(conformance.board_of(results), page, rules.sections_of("T"))
    before = conformance.board_on(page)
    assert {target: str(score) for target, score in merged.scores["T. Quotas of clients"].items()} == {"kafka": "0 of 1"}
    assert merged.scores["A. Idempotent producer"] == before.scores["A. Idempotent producer"]
    assert merged.failures == ["a"]
    with pytest.raises(ValueError, match=r"no test of 'V\. Delegation tokens' was run"):
        conformance.merged(conformance.board_of(results), page, rules.sections_of("T,V"))
