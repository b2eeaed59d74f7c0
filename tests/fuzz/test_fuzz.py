"""The fuzzer encodes requests like the codecs, detects planted faults, and reports no bug that was already fixed."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from msgspec.structs import replace

from ottla.broker.handlers import heartbeat, list_groups
from ottla.broker.handlers.registry import BROKER_APIS
from ottla.protocol.codec import api, decode_body
from ottla.protocol.errors import Code
from tests.fuzz import encoding
from tests.fuzz.exchange import Failure
from tests.fuzz.host import HOLD, Host, warm_up
from tests.fuzz.replay import replay, traces
from tests.fuzz.run import Run
from tests.fuzz.settings import FIXED, Given
from tests.fuzz.values import Maker
from tests.fuzz.vocabulary import BAD_NAMES, Vocabulary
from tests.support.budgets import WithinBudget
from tests.support.handling import as_handler

ROOT = Path(__file__).parents[2]
INPUTS = int(os.environ.get("FUZZ_INPUTS", "200000"))
INPUTS_A_SEED = 500
SEEDS_A_PROCESS = 2
PARTS = 4


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Iterator[None]:
    """Disable the garbage collector and import modules first, so that neither is measured as part of a request."""
    warm_up()
    gc.disable()
    yield
    gc.enable()
    structlog.reset_defaults()


@pytest.fixture
def host() -> Iterator[Host]:
    with Host(1, Given(dict(FIXED))) as host:
        yield host


@pytest.mark.parametrize("key", sorted(encoding.requests()))
def test_requests_encoded_by_the_fuzzer_equal_those_of_the_codecs(key: int) -> None:
    section = encoding.requests()[key]
    rng = random.Random(key)
    words = Vocabulary(rng)
    maker = Maker(rng, words)
    codec = api(key)
    for version in range(section.low, section.high + 1):
        for hostility in (0.0, 0.0, 0.2):
            tree = maker.tree(key, version, words.cast(1_700_000_000_000), hostility)
            raw = encoding.body(key, version, tree, rng)
            try:
                message = decode_body(codec.decode_request, raw, 0, version)
            except ValueError:
                assert hostility or any(len(name) > 32_767 and name.encode() in raw for name in BAD_NAMES), (
                    "a valid request was not decoded"
                )
                continue
            parts: list[Any] = []
            codec.encode_request(parts.append, message, version)
            # The encoder may write a tagged field with its default value, which the codecs omit.
            again = b"".join(parts)
            assert again == raw or decode_body(codec.decode_request, again, 0, version) == message


def frame(key: int, version: int, **fields: Any) -> bytes:
    rng = random.Random(1)
    words = Vocabulary(rng)
    tree = Maker(rng, words).tree(key, version, words.cast(0), 0.0, **fields)
    return encoding.framed(encoding.header(key, version, 1, b"test") + encoding.body(key, version, tree, rng))


Patch = Callable[[int, Any], None]


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Patch:
    """Function that replaces the handler of an API."""

    def put(key: int, handle: Any) -> None:
        monkeypatch.setitem(BROKER_APIS._declared, key, replace(BROKER_APIS.declaration(key), handle=as_handler(handle)))

    return put


LIST_GROUPS = frame(16, 0)
HEARTBEAT = frame(12, 0, group_id="nobody", member_id="m", generation_id=1)


def test_fuzzer_detects_a_planted_handler_error(patch: Patch, host: Host) -> None:
    def handle(ports: Any, request: Any, context: Any) -> Any:
        raise IndexError

    patch(16, handle)
    with pytest.raises(Failure, match=r"UNKNOWN_SERVER_ERROR|logged"):
        host.send(0, LIST_GROUPS)


def test_fuzzer_detects_a_blocked_event_loop(patch: Patch, host: Host) -> None:
    def handle(ports: Any, request: Any, context: Any) -> Any:
        for _ in range(HOLD.lines):
            pass
        return list_groups.handle(ports, request, context)

    patch(16, handle)
    with pytest.raises(Failure, match="held for"):
        host.send(0, LIST_GROUPS)


def test_fuzzer_detects_a_state_change_by_a_refused_request(patch: Patch, host: Host) -> None:
    def handle(ports: Any, request: Any, context: Any) -> Any:
        ports.cluster.create_topic("sly", 1, {})
        return heartbeat.failed(request, context.version, Code.UNKNOWN_MEMBER_ID)

    patch(12, handle)
    with pytest.raises(Failure, match=r"has changed something:(\n.*)*sly"):
        host.send(0, HEARTBEAT)


def test_fuzzer_detects_a_state_change_by_a_read_only_request(patch: Patch, host: Host) -> None:
    def handle(ports: Any, request: Any, context: Any) -> Any:
        ports.cluster.create_topic("sly", 1, {})
        return list_groups.handle(ports, request, context)

    patch(16, handle)
    with pytest.raises(Failure, match="has changed something"):
        host.send(0, LIST_GROUPS)


@pytest.mark.parametrize("word", ["kill", "restart"])
def test_fuzzer_detects_state_lost_in_a_restart(word: str, host: Host) -> None:
    host._broker.broker.cluster.state.next_producer_id += 1
    with pytest.raises(Failure, match="another state"):
        host.perform(word)


def test_fuzzer_reconnects_after_the_broker_closed_its_connection(host: Host) -> None:
    assert host.send(0, b"\xff\xff\xff\xff") == []
    assert len(host.send(0, LIST_GROUPS)) == 1, "the next request uses a new connection"


@pytest.mark.smoke
def test_fuzzer_sends_the_same_requests_for_the_same_seed() -> None:
    def trace() -> list[str]:
        run = Run(3)
        run.go(120)
        return run.host.trace

    assert trace() == trace()


@pytest.mark.smoke
@pytest.mark.parametrize("path", traces(), ids=lambda path: path.stem)
def test_recorded_requests_of_a_fixed_bug_cause_no_failure(path: Path) -> None:
    replay(path)


@pytest.mark.full
@pytest.mark.long
@pytest.mark.wire
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize(("where", "share", "seconds"), [((), 9, 15), (("--sockets",), 1, 8)], ids=["one process", "sockets"])
def test_random_requests_violate_no_guarantee(
    part: int, where: tuple[str, ...], share: int, seconds: float, within_budget: WithinBudget
) -> None:
    """The number of requests is set by ``FUZZ_INPUTS``, and the first seed by ``FUZZ_SEED``.

    A tenth of the requests goes to a broker process over sockets.
    """
    seeds = INPUTS * share // 10 // PARTS // INPUTS_A_SEED
    first = int(os.environ.get("FUZZ_SEED", "1")) + part * seeds
    for low in within_budget(range(first, first + seeds, SEEDS_A_PROCESS), seconds=seconds, floor=1):
        fuzz(low, min(low + SEEDS_A_PROCESS, first + seeds) - 1, *where)


@pytest.mark.nightly
def test_random_requests_do_not_block_the_event_loop() -> None:
    first = int(os.environ.get("FUZZ_SEED", "1"))
    fuzz(first, first + INPUTS // 10 // INPUTS_A_SEED, "--timed")


def fuzz(first: int, last: int, *options: str) -> None:
    """Run these seeds in a new process with a fixed hash seed."""
    command = [sys.executable, "-m", "tests.fuzz", "--seeds", f"{first}-{last}", "--inputs", str(INPUTS_A_SEED), *options]
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
