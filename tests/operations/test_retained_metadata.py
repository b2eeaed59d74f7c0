"""Retained metadata of two clusters: the target keeps its entries, and all adopted or omitted entries are reported."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ottla.coordinator.metadata.client_quotas import entity_of
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, GROUP_RESOURCE, ClusterState
from ottla.coordinator.result import LogRecord
from ottla.operations import retained_metadata as kept
from ottla.operations.adoption import AdoptionPlan, carry_out, plan_adoption
from ottla.operations.metadata_log import METADATA_CONFIG, replay_batch
from ottla.protocol.internal_topics import METADATA_TOPIC
from ottla.protocol.records import build_batch
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import METADATA_DIRECTORY, DirectoryError, DirectoryIdentity
from ottla.storage.log import Log
from ottla.storage.reading import all_batches
from ottla.storage.recovery import open_log
from tests.security.acl.acls import acl
from tests.support.logs import NOW_MS, Logs, put

SESSION = "consumer.session.timeout.ms"


def metadata_of(fs: MemoryFilesystem, directory: str) -> Log:
    log = Log(fs, f"{directory}/{METADATA_DIRECTORY}", METADATA_TOPIC, 0, METADATA_CONFIG)
    open_log(log, NOW_MS, clean=False)
    return log


def keep(fs: MemoryFilesystem, directory: str, rate: float, users: Iterable[str]) -> None:
    """Create a directory whose metadata has credentials, an ACL, a quota of ``rate`` and a group config for each user."""
    log, state = metadata_of(fs, directory), ClusterState(1)
    for user in users:
        records: list[LogRecord] = []
        records += state.client_quotas.alter(entity_of([("user", user)]), {"producer_byte_rate": rate}).records
        records += state.credentials.set(user, 1, user.encode(), b"%d" % rate, 4096).records
        records += state.acls.create([acl("orders", "READ", principal=f"User:{user}")], user.ljust(16).encode, 33).records
        records += state.set_configs(GROUP_RESOURCE, user, {SESSION: f"{rate:.0f}"}).records
        records += state.set_configs(BROKER_RESOURCE, "1", {"background.threads": "3"}).records
        log.append_own(build_batch(((r.key, r.value) for r in records), NOW_MS), NOW_MS)
    log.close()


@pytest.fixture
def fs() -> MemoryFilesystem:
    """A source directory with a topic and with entries of ann and bob, and a target directory with other entries of bob."""
    fs = MemoryFilesystem()
    log = Logs(fs, "/source/t-0").new()
    put(log)
    log.close()
    keep(fs, "/source", 1000, ["ann", "bob"])
    keep(fs, "/target", 2000, ["bob"])
    return fs


def state_in(fs: MemoryFilesystem, directory: str) -> ClusterState:
    state, log = ClusterState(1), metadata_of(fs, directory)
    for header, raw in all_batches(log):
        replay_batch(state, header, raw, is_strict=True)
    log.close()
    return state


def adopted(fs: MemoryFilesystem, *topics: str) -> tuple[AdoptionPlan, ClusterState]:
    plan = plan_adoption(fs, "/source", topics, iter(lambda: bytes(16), None))
    carry_out(fs, "/target", plan, DirectoryIdentity("cluster", 1, "directory"), NOW_MS, lambda *_: None)
    return plan, state_in(fs, "/target")


def test_adopt_command_keeps_and_reports_conflicting_quotas_and_configs_of_the_target(fs: MemoryFilesystem) -> None:
    own = state_in(fs, "/target")
    plan, state = adopted(fs)
    assert {name: state.config_of(GROUP_RESOURCE, name)[SESSION] for name in ("ann", "bob")} == {"ann": "1000", "bob": "2000"}
    rates = {entity[0][1]: quotas["producer_byte_rate"] for entity, quotas in state.client_quotas.by_entity.items()}
    assert rates == {"ann": 1000, "bob": 2000}
    assert state.credentials.by_user["bob"] == own.credentials.by_user["bob"]
    assert state.credentials.by_user["ann"][1].salt == b"ann"
    assert sorted(acl.principal for acl in state.acls.by_id.values()) == ["User:ann", "User:bob"]
    told = "\n".join(plan.notes)
    assert "also imported: quotas of clients and users: 2, credentials of users: 2, ACLs: 2, configs of groups: 2" in told
    for words, shown in (
        ("quotas of clients and users", "user bob"),
        ("credentials of users", "bob"),
        ("ACLs", "ALLOW User:bob READ TOPIC orders"),
        ("configs of groups", "bob"),
    ):
        assert f"{words}: /target keeps its own for 1 that exist in both ({shown})" in told
    assert "broker configs are not imported (1 brokers have some)" in told


def test_adopt_command_for_single_topics_imports_no_quotas_credentials_or_configs(fs: MemoryFilesystem) -> None:
    plan, state = adopted(fs, "t")
    assert list(state.credentials.by_user) == ["bob"]
    expected = (
        "not imported, because --topic was given: quotas of clients and users: 2, credentials of users: 2, ACLs: 2, configs of"
        " groups: 2"
    )
    assert expected in plan.notes
    assert not any("keeps its own" in note for note in plan.notes)


@pytest.mark.parametrize("limit", ["MAX_ENTITIES", "MAX_USERS", "MAX_ACLS", "MAX_KEPT", "MAX_KEPT_CHARACTERS"])
def test_adopt_command_refuses_quotas_and_credentials_beyond_the_limit_without_a_write(
    fs: MemoryFilesystem, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dict(fs.files)
    monkeypatch.setattr(kept, limit, 1)
    with pytest.raises(DirectoryError, match="adopt single topics with --topic"):
        adopted(fs)
    assert fs.files == before
