"""JSONPath conditions in filters of records, and the limit on their work."""

from __future__ import annotations

import json

import pytest

from ottla.arguments import BadArgument
from ottla.client import ConsumedRecord
from ottla.client.errors import ClientError
from ottla.client.records import json_path
from ottla.client.records.record_filter import MISSING, RecordFilter, condition
from tests.support.consumed import consumed

VALUE = b'{"status": "paid", "items": [{"sku": "a", "price": 50}, {"sku": "b", "price": 150}], "a=b": 1, "none": null}'


def record(value: bytes | None = VALUE, key: bytes | None = None) -> ConsumedRecord:
    return consumed(key=key, value=value)


@pytest.mark.parametrize(
    "text",
    [
        "value$",
        "value$.none",
        "value$..price>100",
        "value$..price<100",
        "value$.items[?@.price>100]",
        "value$.items[?@.price>100 && @.sku=='b']",
        "value$.status=paid",
        "value$.status = paid",
        "value$['a=b']=1",
        "value$..sku~^b$",
        "value$..sku!=c",
        "!value$..nope",
        "!value$.items[?@.price>200]",
        "value$.items[?match(@.sku, '[b-z]')]",
        "value$[?search(@, 'ai')]",
    ],
)
def test_json_path_condition_selects_records_that_match_it(text: str) -> None:
    assert condition(text)(record())


@pytest.mark.parametrize(
    "text", ["value$..price>200", "value$..price!=50", "key$", "value$..nope", "!value$.status", "value$.items[2]"]
)
def test_json_path_condition_rejects_records_that_do_not_match_it(text: str) -> None:
    assert not condition(text)(record())


def test_json_path_of_a_scalar_matches_only_its_root() -> None:
    assert condition("value$=7")(record(b"7"))
    assert condition("value$=text")(record(b'"text"'))
    assert not condition("value$.a")(record(b'"{\\"a\\": 1}"'))
    assert not condition("value$")(record(b"no JSON"))


def test_json_path_is_applied_to_the_decoded_document() -> None:
    decoded = RecordFilter((condition("value$.a=1"),), lambda data: {"a": 1} if data == b"packed" else MISSING)
    assert decoded(record(b"packed"))
    assert not decoded(record(b'{"a": 1}'))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("value$..*[", "'$..*[' is not a JSONPath (RFC 9535): "),
        ("value$|$.a", "'$|$.a' is not a JSONPath (RFC 9535): unexpected token '|'"),
        ("value$[?x(@)]", "'$[?x(@)]' is not a JSONPath (RFC 9535): unexpected 'x'"),
        ("!value$.a=1", "'!value$.a=1' has both ! and =; give value$.a!=1, or !value$.a"),
        ("value$.a>x", "'x' is not a number"),
        ("value$" + "[?(" * 98, "'$[?("),
        ("value$" + ".a" * 200, "a JSONPath has at most 300 characters, but this has 401"),
    ],
)
def test_invalid_json_paths_are_refused(text: str, error: str) -> None:
    with pytest.raises(BadArgument) as raised:
        condition(text)
    assert str(raised.value).startswith(error)


WIDE = json.dumps([0] * 5_000).encode()
TREE = json.dumps([{"a": {"b": [1] * 50}} for _ in range(500)]).encode()


@pytest.mark.parametrize("value", [WIDE, TREE])
@pytest.mark.parametrize(
    "path",
    [
        "$..*..*..*..*..x",
        "$[" + ",".join(["*"] * 100) + "]" + "[?@.x]" * 10,
        "$[" + ",".join(["?1==2"] * 45) + "]",
        "$[?$..[?$..[?$..x]]]",
        "$[?count($..*..*..*)==1]",
        "$..[?@..[?@..[?@..x]]]",
        "$[" + ",".join(["::1"] * 50) + "]" + "[::1,::1,::1]" * 5,
    ],
)
def test_hostile_json_path_ends_after_a_bounded_number_of_nodes(path: str, value: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = 0
    spend = json_path._Budget.spend

    def counted(budget: json_path._Budget, nodes: int) -> None:
        nonlocal spent
        spent += nodes
        spend(budget, nodes)

    monkeypatch.setattr(json_path, "MAX_VISITED", 10_000)
    monkeypatch.setattr(json_path._Budget, "spend", counted)
    try:
        condition(f"value{path}")(record(value))
    except ClientError as error:
        assert "orders-2 at offset 41: the JSONPath visits more than 10,000 nodes" in str(error)
    assert 0 < spent <= json_path.MAX_VISITED + 1 + len(value)


def test_json_path_limit_of_visited_nodes_applies_to_each_document() -> None:
    holds = condition("value$..*=1")
    for _ in range(100):
        assert not holds(record(WIDE))


def test_json_path_reports_extreme_nesting_depth_as_an_error() -> None:
    with pytest.raises(ClientError, match="more than 100 levels"):
        condition("value$..x")(record(b"[" * 900 + b"]" * 900))
    assert not condition("value$..x")(record(b"[" * 100_000))


def test_regular_expressions_in_json_paths_take_linear_time() -> None:
    """Python's own `re` takes exponential time for the tested expression and value."""
    assert not condition("value$[?search(@, '(a+)+$')]")(record(json.dumps(["a" * 10_000 + "!"]).encode()))
    with pytest.raises(ClientError, match="is not a regular expression of RE2"):
        condition("value$[?match(@, '(?=a)b')]")(record(b'["a"]'))


@pytest.mark.parametrize("path", ["$.lists[?@ == $.a]", "$.texts[?search(@, 'x{3}y')]"])
def test_json_path_comparisons_and_functions_count_towards_the_node_limit(path: str) -> None:
    numbers = list(range(2_000))
    document = {"a": numbers, "lists": [list(numbers) for _ in range(100)], "texts": ["x" * 10_000] * 2_000}
    with pytest.raises(json_path.TooManyNodes):
        list(json_path.JsonPath(path).values(document))
