"""Connects `BrokerLifecycle` and `MetadataFetch` to the controller: sends their requests and passes on the responses.

Heartbeats and fetches have a connection each, because a waiting fetch would delay the responses to later heartbeats.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Protocol

import structlog

from ottla.broker.loop.env import Clock, Randomness, Timer, Timers
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.membership.lifecycle import BrokerLifecycle
from ottla.broker.membership.metadata_fetch import IDS_FROM, MAX_WAIT_MS, FetchOutcome, MetadataFetch, Step
from ottla.broker.membership.metadata_replica import MetadataLost, MetadataReplica, ReplicaRefused
from ottla.broker.membership.snapshot_fetch import SnapshotFetch, SnapshotRefused
from ottla.broker.membership.states import BrokerState
from ottla.broker.peers.peer import Peer
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.protocol.errors import Code
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest
from ottla.protocol.remedies import name_of

FETCH_TIMEOUT_MS = 2_000
"""If a fetch has no response this many ms after its maximum wait, the broker reconnects (controller.quorum.fetch.timeout.ms)."""
FETCH_RETRY_MS = 100
SNAPSHOT_TIMEOUT_MS = 10_000
"""Timeout of the request for one piece of a snapshot, in ms."""

log = structlog.get_logger("membership")


class MembershipEnv(Clock, Randomness, Timers, Protocol):
    """The part of `broker.loop.env.Env` that a membership uses."""


class MembershipOwner(Protocol):
    """The part of a broker that acts on changes of its membership (`joined_metadata.JoinedMetadata`)."""

    def state_changed(self) -> None:
        """Called when the state of the broker in its cluster has changed."""
        ...

    def metadata_lost(self, reason: str) -> None:
        """Called when this broker cannot continue with its metadata (`MetadataLost`). Fetching has ended."""
        ...

    def controller_replaced(self, reason: str) -> None:
        """Called when the controller was restarted or replaced. Connections to the previous controller may still look open."""
        ...


class Membership:
    """The membership of one broker, from `start` to `stop`."""

    def __init__(
        self,
        env: MembershipEnv,
        *,
        lifecycle: BrokerLifecycle,
        fetch: MetadataFetch,
        replica: MetadataReplica,
        heartbeats: Peer,
        fetches: Peer,
        owner: MembershipOwner,
    ) -> None:
        self._env = env
        self.lifecycle = lifecycle
        self._fetch = fetch
        self.replica = replica
        self._heartbeats = heartbeats
        self._fetches = fetches
        self._owner = owner
        self._beat_timer: Timer | None = None
        self._fetch_timer: Timer | None = None
        self._is_stopped = False
        self.last_failure = ""
        """The last failure to reach the controller, or the error in its response; empty after a successful heartbeat."""
        self.is_of_another_cluster = False
        """Whether the controller rejected the cluster id of this starting broker. If so, no further request is sent."""
        self._beat_errors, self._fetch_errors = RepeatedErrors(env, log), RepeatedErrors(env, log)

    def start(self) -> None:
        self.lifecycle.start(self._env.monotonic_ms())
        self._beat()
        self._fetch_next()

    def become_ready(self) -> None:
        self.lifecycle.become_ready(self._env.monotonic_ms())
        self._beat()

    def register_again(self) -> None:
        self.lifecycle.register_again(self._env.monotonic_ms())
        self._beat()

    def begin_controlled_shutdown(self) -> None:
        """Ask the controller whether this broker may stop. `MembershipOwner.state_changed` is called when the controller agrees."""
        self.lifecycle.begin_controlled_shutdown(self._env.monotonic_ms())
        self._beat()
        if self.lifecycle.may_stop:
            self._owner.state_changed()

    def stop(self) -> None:
        """Send nothing more, and close the connections."""
        self._is_stopped = True
        self.lifecycle.begin_shutdown()
        for timer in (self._beat_timer, self._fetch_timer):
            if timer is not None:
                timer.cancel()
        self._heartbeats.close()
        self._fetches.close()

    # Registration and heartbeats

    def _beat(self) -> None:
        if self._beat_timer is not None:
            self._beat_timer.cancel()
            self._beat_timer = None
        lifecycle, now_ms = self.lifecycle, self._env.monotonic_ms()
        request = lifecycle.next_request(now_ms, self.replica.applied_offset)
        if request is None:
            if lifecycle.due_ms is not None:
                # The delay is rounded up, because a clock may count whole milliseconds, and the timer must not fire before the
                # request is due.
                self._beat_timer = self._env.call_later(max(0, ceil(lifecycle.due_ms - now_ms)), self._beat)
            return
        is_registration = isinstance(request, BrokerRegistrationRequest)
        # The request times out with the session, because a response after the end of the session is useless.
        self._heartbeats.send(
            request,
            lambda answer: self._answered(answer, is_registration=is_registration),
            timeout_ms=lifecycle.intervals.session_ms,
        )

    def _answered(self, answer: Any, *, is_registration: bool) -> None:
        if self._is_stopped:
            return
        lifecycle, now_ms, chance = self.lifecycle, self._env.monotonic_ms(), self._chance()
        before = (lifecycle.state, lifecycle.is_fenced, lifecycle.is_registered)
        if isinstance(answer, PeerFailure):
            lifecycle.failed(now_ms, chance)
            self._failed(answer.reason, is_logged=answer.kind is Failure.REFUSED)
            if lifecycle.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and lifecycle.is_left_alone(now_ms):
                # No controller is reachable to move the leaderships, so do not wait.
                lifecycle.begin_shutdown()
        elif is_registration:
            if self._refuses_cluster(answer.error_code):
                return
            if lifecycle.registered(answer, now_ms, chance):
                log.info("broker_registered", broker_epoch=lifecycle.broker_epoch)
            else:
                self._failed(f"the controller refused the registration with {name_of(answer.error_code)}")
        else:
            lifecycle.heard(answer, now_ms, chance)
            if answer.error_code:
                self._failed(f"the controller refused a heartbeat with {name_of(answer.error_code)}")
            else:
                self.last_failure = ""
                self._beat_errors.succeeded()
        self._beat()
        if before != (lifecycle.state, lifecycle.is_fenced, lifecycle.is_registered):
            log.info("broker_state_changed", state=lifecycle.state.name, is_fenced=lifecycle.is_fenced)
            self._owner.state_changed()

    def _failed(self, reason: str, *, is_logged: bool = False) -> None:
        self.last_failure = reason
        if not is_logged:
            self._beat_errors.failed("controller_not_reached", reason, controller=repr(self._heartbeats))

    def _refuses_cluster(self, code: int) -> bool:
        """Whether the controller belongs to another cluster. If so, a starting broker gives up, because no retry can help.

        A broker in service continues: its controller's address may have been given to another controller by mistake.
        """
        if code != Code.INCONSISTENT_CLUSTER_ID or self.lifecycle.state is not BrokerState.STARTING:
            return False
        self.is_of_another_cluster = True
        self.stop()
        self._owner.state_changed()
        return True

    def _chance(self) -> float:
        return int.from_bytes(self._env.random_uuid()[:4], "big") / (1 << 32)

    # Fetching the metadata log

    def _fetch_next(self) -> None:
        self._fetch_timer = None
        request = self._fetch.request(self.replica.end_offset, self.replica.last_epoch)
        self._fetches.send(request, self._fetched, timeout_ms=MAX_WAIT_MS + FETCH_TIMEOUT_MS, least_version=IDS_FROM)

    def _fetched(self, answer: Any) -> None:
        if self._is_stopped:
            return
        if isinstance(answer, PeerFailure):
            self._fetch_later()
            return
        if self._refuses_cluster(answer.error_code):
            return
        known_epoch = self._fetch.leader_epoch
        taken = self._fetch.take(answer)
        if 0 < known_epoch < self._fetch.leader_epoch:
            reason = f"the controller has changed: its epoch is {self._fetch.leader_epoch}"
            self._heartbeats.reconnect(reason)
            self._owner.controller_replaced(reason)
        if taken.step is Step.SNAPSHOT:
            self._begin_snapshot(taken)
            return
        try:
            is_over = self._carry_out(taken)
        except MetadataLost as error:
            # Applied metadata cannot be undone. If this broker continued, it would act on metadata that no other node has.
            self._owner.metadata_lost(str(error))
            return
        except ReplicaRefused as error:
            self._fetch_errors.failed("controller_metadata_refused", str(error))
            is_over = False
        except Exception:
            # `Peer` logs the exception. Fetch again, because heartbeats alone would keep this broker in the cluster with old
            # metadata.
            self._fetch_later()
            raise
        if is_over:
            self._fetch_next()
        else:
            self._fetch_later()

    def _carry_out(self, taken: FetchOutcome) -> bool:
        """Process the outcome of a fetch; returns whether to fetch again immediately."""
        if taken.step is Step.APPEND:
            self.replica.append(taken.records)
            self.replica.commit(taken.high_watermark)
            self._fetch_errors.succeeded()
            return True
        if taken.step is Step.TRUNCATE:
            self.replica.truncate(taken.end_offset, taken.epoch)
            return True
        if taken.step is Step.ASK_AGAIN:
            return True
        self._fetch_errors.failed("metadata_not_read", taken.reason)
        return False

    def _begin_snapshot(self, taken: FetchOutcome) -> None:
        if self.replica.is_empty:
            self._ask_for_snapshot(self._fetch.snapshot(taken.end_offset, taken.epoch))
            return
        # Do not fetch the snapshot: applying a snapshot to existing metadata would require a comparison of all records.
        reason = "the controller's log begins after the end of this broker's metadata"
        hint = "restart the broker; its metadata is too old"
        self._fetch_errors.failed("metadata_gap_found", reason, level="error", first_offset=taken.end_offset, hint=hint)
        self._fetch_later()

    def _ask_for_snapshot(self, snapshot: SnapshotFetch) -> None:
        request = snapshot.request(self._fetch.leader_epoch)
        self._fetches.send(request, lambda answer: self._snapshot_fetched(snapshot, answer), timeout_ms=SNAPSHOT_TIMEOUT_MS)

    def _snapshot_fetched(self, snapshot: SnapshotFetch, answer: Any) -> None:
        if self._is_stopped:
            return
        try:
            if isinstance(answer, PeerFailure):
                raise SnapshotRefused(answer.reason)
            whole = snapshot.take(answer)
            if whole is None:
                self._ask_for_snapshot(snapshot)
                return
            self.replica.begin_with(whole, snapshot.end_offset, snapshot.epoch)
        except (SnapshotRefused, ReplicaRefused) as error:
            self._fetch_errors.failed("metadata_snapshot_not_read", str(error))
            self._fetch_later()
        else:
            log.info("metadata_snapshot_read", end_offset=snapshot.end_offset, size_bytes=len(whole))
            self._fetch_next()

    def _fetch_later(self) -> None:
        self._fetch_timer = self._env.call_later(FETCH_RETRY_MS, self._fetch_next)

    @property
    def is_serving(self) -> bool:
        """Whether the broker accepts client requests."""
        return self.lifecycle.state in (BrokerState.RUNNING, BrokerState.PENDING_CONTROLLED_SHUTDOWN)
