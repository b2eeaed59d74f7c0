"""The memory budgets shared by all connections: which client waits, resumes or is closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.limits.memory_budgets import CHECK_MS, FIRST_MS, RequestBudget, ResponseBudget
from ottla.simulation.env import SimulatedEnv
from tests.support.world import simulated_env

LIMIT_BYTES = 1_000_000
STALL_MS = 500


class Client:
    """A connection, with the interface that the budgets need."""

    def __init__(self, name: str) -> None:
        self.peer = name
        self.unsent = 0
        self.sent = 0
        self.went_on = 0
        self.closed = ""
        self.on_going_on: Callable[[], object] = lambda: None

    def unsent_bytes(self) -> int:
        return self.unsent

    def sent_bytes(self) -> int:
        return self.sent

    def go_on(self) -> None:
        self.went_on += 1
        self.on_going_on()

    def abort(self, reason: str) -> None:
        self.closed = reason
        self.unsent = 0


@pytest.fixture
def env() -> SimulatedEnv:
    return simulated_env()


class TestResponses:
    @pytest.fixture
    def budget(self, env: SimulatedEnv) -> ResponseBudget:
        return ResponseBudget(env, LIMIT_BYTES, STALL_MS)

    def hold(self, budget: ResponseBudget, client: Client, size_bytes: int) -> Client:
        client.unsent = size_bytes
        budget.note(client, size_bytes)
        return client

    def test_client_does_not_wait_while_the_memory_budget_has_room(self, budget: ResponseBudget) -> None:
        self.hold(budget, Client("slow"), LIMIT_BYTES - 1)
        assert not budget.is_used_up

    def test_memory_budget_releases_bytes_sent_to_the_client(self, budget: ResponseBudget) -> None:
        slow = self.hold(budget, Client("slow"), LIMIT_BYTES)
        slow.unsent = 10
        assert not budget.is_used_up
        assert budget.used_bytes == 10

    def test_stalled_client_with_most_pending_bytes_is_disconnected_at_the_memory_limit(
        self, env: SimulatedEnv, budget: ResponseBudget
    ) -> None:
        small = self.hold(budget, Client("small"), LIMIT_BYTES // 4)
        large = self.hold(budget, Client("large"), LIMIT_BYTES // 2)
        steady = self.hold(budget, Client("steady"), LIMIT_BYTES // 2)
        reader = Client("reader")
        assert budget.is_used_up
        budget.wait(reader.go_on)
        for _ in range(int(2 * STALL_MS / CHECK_MS)):
            steady.sent += 1
            env.advance(CHECK_MS)
        assert large.closed and not small.closed and not steady.closed
        assert reader.went_on == 1
        assert budget.closed_count == 1
        assert not budget.is_used_up

    def test_stalled_client_stays_connected_while_no_client_waits_for_memory(
        self, env: SimulatedEnv, budget: ResponseBudget
    ) -> None:
        slow = self.hold(budget, Client("slow"), 2 * LIMIT_BYTES)
        env.advance(10 * STALL_MS)
        assert not slow.closed

    def test_disconnected_client_uses_no_memory_budget_and_does_not_wait(self, env: SimulatedEnv, budget: ResponseBudget) -> None:
        slow, reader = self.hold(budget, Client("slow"), 2 * LIMIT_BYTES), Client("reader")
        assert budget.is_used_up
        budget.wait(reader.go_on)
        budget.remove(reader)
        budget.remove(slow)
        env.advance(10 * STALL_MS)
        assert (budget.used_bytes, reader.went_on, budget.waiting_count) == (0, 0, 0)

    def test_bytes_read_for_responses_count_in_the_response_memory_budget(self, budget: ResponseBudget) -> None:
        budget.read(LIMIT_BYTES)
        assert budget.left_bytes == 0
        assert budget.is_used_up
        budget.read(-LIMIT_BYTES)
        assert not budget.is_used_up


class TestRequests:
    @pytest.fixture
    def budget(self, env: SimulatedEnv) -> RequestBudget:
        return RequestBudget(env, LIMIT_BYTES, STALL_MS)

    def test_first_client_that_waits_for_memory_may_exceed_the_budget(self, env: SimulatedEnv, budget: RequestBudget) -> None:
        holder, first, second = Client("holder"), Client("first"), Client("second")
        assert budget.ask(holder, LIMIT_BYTES)
        budget.charge(holder, LIMIT_BYTES)
        # `first` is the first client to wait, so it may exceed the limit until the end of its frame.
        assert budget.ask(first, LIMIT_BYTES)
        assert not budget.ask(second, LIMIT_BYTES)
        env.advance(2 * CHECK_MS)
        assert second.went_on == 0
        # The frame is complete and its request is being handled, so `first` still holds the memory.
        budget.charge(first, LIMIT_BYTES)
        env.advance(2 * CHECK_MS)
        assert second.went_on == 0
        budget.charge(first, 0)
        env.advance(2 * CHECK_MS)
        assert second.went_on == 1
        assert budget.ask(second, LIMIT_BYTES)
        assert budget.used_bytes == 2 * LIMIT_BYTES

    def test_first_client_that_waits_for_memory_is_disconnected_after_a_deadline(
        self, env: SimulatedEnv, budget: RequestBudget
    ) -> None:
        holder, first, second = Client("holder"), Client("first"), Client("second")
        budget.charge(holder, LIMIT_BYTES)
        assert budget.ask(first, LIMIT_BYTES)
        budget.charge(first, LIMIT_BYTES)
        assert not budget.ask(second, LIMIT_BYTES)
        env.advance(FIRST_MS - 1_000)
        assert not first.closed
        env.advance(2_000)
        assert first.closed and not holder.closed
        assert second.went_on == 1

    def test_paused_client_does_not_block_other_clients_that_wait_for_memory(
        self, env: SimulatedEnv, budget: RequestBudget
    ) -> None:
        holder, first, second, third = (Client(name) for name in ("holder", "first", "second", "third"))
        budget.charge(holder, LIMIT_BYTES)
        assert budget.ask(first, LIMIT_BYTES)
        assert not budget.ask(second, LIMIT_BYTES)
        assert not budget.ask(third, LIMIT_BYTES)
        third.on_going_on = lambda: budget.ask(third, LIMIT_BYTES)
        budget.charge(first, 0)
        env.advance(2 * CHECK_MS)
        # `second` was resumed but is paused for another reason, so it requested no memory. `third` is now the first client in the
        # queue.
        assert (second.went_on, third.went_on) == (1, 1)
        assert budget.used_bytes == 2 * LIMIT_BYTES

    def test_client_that_stalls_in_a_request_is_disconnected_when_others_need_memory(
        self, env: SimulatedEnv, budget: RequestBudget
    ) -> None:
        stalled, first, second = Client("stalled"), Client("first"), Client("second")
        assert budget.ask(stalled, LIMIT_BYTES)
        env.advance(10 * STALL_MS)
        assert not stalled.closed, "no client is waiting for memory"
        assert budget.ask(first, 10_000)
        assert not budget.ask(second, 10_000)
        env.advance(2 * CHECK_MS)
        assert stalled.closed
        assert second.went_on == 1
        assert budget.ask(second, 10_000)

    def test_slowly_sending_client_loses_the_first_place_in_the_memory_queue(
        self, env: SimulatedEnv, budget: RequestBudget
    ) -> None:
        holder, first, second = Client("holder"), Client("first"), Client("second")
        budget.charge(holder, LIMIT_BYTES)
        assert budget.ask(first, 10_000)
        assert not budget.ask(second, 10_000)
        for at in range(int(FIRST_MS / 100) + 2):
            if not first.closed:
                assert budget.ask(first, 10_000 + at)
            env.advance(100)
        assert first.closed
        assert second.went_on

    def test_client_does_not_wait_without_a_memory_limit(self, env: SimulatedEnv) -> None:
        budget = RequestBudget(env, -1, STALL_MS)
        assert all(budget.ask(Client(str(n)), 1 << 40) for n in range(3))
        assert not budget.is_used_up
