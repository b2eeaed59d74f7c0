"""Arguments of a wrong type are refused with one line that names the expected type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker, Cluster
from ottla.control.argument_types import checks_argument_types
from ottla.control.faults.remote_faults import RemoteFault, RemoteFaults
from ottla.testing.async_operations import AsyncOperations


@checks_argument_types
class Handle:
    def __init__(self, port: int = 0) -> None:
        self.port = port

    def method(
        self,
        number: int | None = None,
        seconds: float = 1.0,
        *names: Any,
        path: str | Path = "",
        is_new: bool = False,
        configs: Mapping[str, int] | None = None,
        act: Callable[[], None] = print,
        unchecked: bytes | str = b"",
    ) -> str:
        return f"{number} {seconds} {is_new}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"number": "3"}, "number: expected a whole number or None, not '3'"),
        ({"number": 3.0}, "number: expected a whole number or None, not 3.0"),
        ({"number": True}, "number: expected a whole number or None, not True"),
        ({"seconds": "1"}, "seconds: expected a number, not '1'"),
        ({"seconds": None}, "seconds: expected a number, not None"),
        ({"path": 1}, "path: expected a text or a Path, not 1"),
        ({"is_new": "no"}, "is_new: expected True or False, not 'no'"),
        ({"configs": ["a"]}, "configs: expected a dict or None, not ['a']"),
        ({"act": True}, "act: expected a function, not True"),
    ],
)
def test_error_for_an_argument_of_the_wrong_type_names_the_argument_in_one_line(given: dict[str, Any], told: str) -> None:
    with pytest.raises(TypeError) as raised:
        Handle().method(**given)
    assert str(raised.value) == told


def test_arguments_of_the_right_type_reach_the_method_of_a_broker_object() -> None:
    assert Handle().method(is_new=1, configs=[("a", 1)], path=Path()) == "None 1.0 1"  # type: ignore[arg-type]
    assert Handle().method(3, 1, "a", unchecked=[]) == "3 1 False"  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="port: expected a whole number, not '9092'"):
        Handle("9092")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Handle.method\(\) got an unexpected keyword argument 'nothing'"):
        Handle().method(nothing=1)  # type: ignore[call-arg]


CALLS: list[tuple[str, Callable[[Any], Any]]] = [
    ("topic", lambda it: it.produce(1, "a")),
    ("partition", lambda it: it.produce("t", "a", partition="0")),
    ("n", lambda it: it.consume("t", n="3")),
    ("timeout_s", lambda it: it.consume("t", timeout_s="1")),
    ("start", lambda it: it.expect("t", "a", start="0")),
    ("timeout_s", lambda it: it.wait_for(print, timeout_s="1")),
    ("condition", lambda it: it.wait_for(True)),
]
OF_HANDLES: list[tuple[str, Callable[[Any], Any]]] = [
    *CALLS,
    ("partitions", lambda it: it.create_topic("t", partitions="3")),
    ("configs", lambda it: it.create_topic("t", configs="a=b")),
    ("name", lambda it: it.delete_topic(["t"])),
    ("offsets", lambda it: it.commit_offsets("g", ["t"])),
    ("timeout_s", lambda it: it.transaction("x", timeout_s="1")),
    ("group", lambda it: it.lag(1)),
    ("user", lambda it: it.client_properties(1)),
    ("user", lambda it: it.delegation_token(1)),
]


@pytest.mark.parametrize("call", OF_HANDLES)
@pytest.mark.parametrize("handle", [Broker, Cluster])
def test_methods_of_broker_objects_check_argument_types_before_a_request(
    handle: Any, call: tuple[str, Callable[[Any], Any]]
) -> None:
    with pytest.raises(TypeError, match=f"^{call[0]}: expected "):
        call[1](handle())


@pytest.mark.parametrize("call", CALLS)
async def test_coroutines_of_broker_objects_check_argument_types(call: tuple[str, Callable[[Any], Any]]) -> None:
    with pytest.raises(TypeError, match=f"^{call[0]}: expected "):
        await call[1](AsyncOperations(Broker()))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("port", lambda: Broker(port="9092")),  # type: ignore[arg-type]
        ("features", lambda: Broker(features=["a"])),  # type: ignore[arg-type]
        ("timeout_s", lambda: RemoteFault(lambda: None, 1).wait(timeout_s="1")),  # type: ignore[arg-type,return-value]
        ("ms", lambda: RemoteFaults(lambda: None).delay("500")),  # type: ignore[arg-type,return-value]
        ("broker", lambda: Cluster().kill("1")),  # type: ignore[arg-type]
    ],
)
def test_constructors_of_brokers_faults_and_nodes_check_argument_types(name: str, make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=f"^{name}: expected "):
        make()
