"""Quotas and credentials are described as they were set, also after a restart, a kill, a refused write, `graduate` and `adopt`."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from ottla.coordinator.metadata import client_quotas, scram_credentials
from ottla.coordinator.metadata.client_quotas import ClientQuotas, entity_of
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.scram_credentials import ScramCredentials
from ottla.operations.adoption import AdoptionPlan
from ottla.operations.adoption import _records as adopted
from ottla.operations.graduation import plan_graduation
from ottla.operations.retained_metadata import KeptEntries
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import alter_client_quotas as altering
from ottla.protocol.messages import alter_user_scram_credentials as scram
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.client import SimulatedClient

ALICE = {"user": "alice", "client-id": None}


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker().start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def alter(
    client: SimulatedClient, entity: dict[str, str | None], *ops: tuple[str, float | None], validate_only: bool = False
) -> int:
    entry = altering.EntryData(
        entity=[altering.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[altering.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )
    answer = client.call(altering.AlterClientQuotasRequest(entries=[entry], validate_only=validate_only))
    code: int = answer.entries[0].error_code
    return code


def quotas(client: SimulatedClient) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    answer = client.call(DescribeClientQuotasRequest(components=[], strict=False))
    assert answer.error_code == 0
    return [({p.entity_type: p.entity_name for p in e.entity}, {v.key: v.value for v in e.values}) for e in answer.entries]


def set_password(client: SimulatedClient, user: str, mechanism: int = 1, **changed: object) -> int:
    upsertion = scram.ScramCredentialUpsertion(
        **{"name": user, "mechanism": mechanism, "iterations": 4096, "salt": b"salt", "salted_password": b"p" * 32, **changed}
    )
    answer = client.call(scram.AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))
    code: int = answer.results[0].error_code
    return code


def users(client: SimulatedClient) -> dict[str, list[tuple[int, int]]]:
    answer = client.call(DescribeUserScramCredentialsRequest(users=None))
    return {r.user: [(c.mechanism, c.iterations) for c in r.credential_infos] for r in answer.results}


def fill(client: SimulatedClient) -> None:
    assert alter(client, ALICE, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5)) == 0
    assert alter(client, {"ip": None}, ("connection_creation_rate", 7.0)) == 0
    assert set_password(client, "alice") == set_password(client, "alice", 2) == set_password(client, "bob", 1) == 0


FILLED = (
    [(ALICE, {"producer_byte_rate": 1000.0, "request_percentage": 12.5}), ({"ip": None}, {"connection_creation_rate": 7.0})],
    {"alice": [(1, 4096), (2, 4096)], "bob": [(1, 4096)]},
)


@pytest.mark.parametrize("kill", [False, True])
def test_quotas_and_scram_users_survive_a_restart(broker: SimulatedBroker, kill: bool) -> None:
    fill(broker.connect())
    client = broker.restart(kill=kill).connect()
    assert (quotas(client), users(client)) == FILLED
    assert alter(client, ALICE, ("producer_byte_rate", None), ("request_percentage", None), ("no.such.key", None)) == 0
    deletion = scram.ScramCredentialDeletion(name="bob", mechanism=1)
    assert client.call(scram.AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[])).results[0].error_code == 0
    client = broker.restart(kill=kill).connect()
    assert quotas(client) == FILLED[0][1:]
    assert users(client) == {"alice": FILLED[1]["alice"]}


def test_graduate_and_adopt_commands_keep_quotas_and_credentials(broker: SimulatedBroker) -> None:
    fill(broker.connect())
    broker.stop()
    state = ClusterState(1)
    for record in plan_graduation(broker.fs, DATA_DIR, {}).records:
        state.replay(record)
    of_alice, of_any = (entity_of(entity.items()) for entity, _ in FILLED[0])
    assert state.client_quotas.by_entity == {of_alice: FILLED[0][0][1], of_any: FILLED[0][1][1]}
    assert {user: sorted(of_user) for user, of_user in state.credentials.by_user.items()} == {"alice": [1, 2], "bob": [1]}
    plan = AdoptionPlan(kept=KeptEntries(state.client_quotas, state.credentials, configs={(32, "g"): {"a": "1"}}))
    target = ClusterState(1)
    for batch in adopted(ClusterState(1), plan):
        for record in batch:
            target.replay(record)
    assert target.client_quotas.by_entity == state.client_quotas.by_entity
    assert target.credentials.by_user == state.credentials.by_user
    assert target.config_of(32, "g") == {"a": "1"}
    broker.start()


def test_validate_only_and_refused_quota_changes_have_no_effect(broker: SimulatedBroker) -> None:
    client = broker.connect()
    assert alter(client, ALICE, ("producer_byte_rate", 5.0), validate_only=True) == 0
    for entity, key, value in (
        ({}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"group": "x"}, "producer_byte_rate", 1.0),
        ({"user": "a", "ip": "1.2.3.4"}, "producer_byte_rate", 1.0),
        ({"ip": "no address"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "producer_byte_rate", 0.0),
        ({"user": "a"}, "producer_byte_rate", 1.5),
        ({"user": "a"}, "producer_byte_rate", float("inf")),
        ({"user": "a"}, "request_percentage", float("nan")),
        ({"ip": "::1"}, "connection_creation_rate", 2.0**31),
    ):
        assert alter(client, dict(entity), (key, value)) == Code.INVALID_REQUEST
    assert alter(client, ALICE, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)) == Code.INVALID_REQUEST
    assert quotas(client) == []
    assert set_password(client, "") == set_password(client, "a", iterations=1) == Code.UNACCEPTABLE_CREDENTIAL
    assert set_password(client, "a", salted_password=b"") == set_password(client, "a", salt=bytes(1_001)) == 93
    assert set_password(client, "a", 3) == Code.UNSUPPORTED_SASL_MECHANISM
    assert users(client) == {}


@pytest.mark.parametrize(
    ("wanted", "strict", "matching"),
    [
        ({"user": (0, "alice")}, False, [0, 2]),
        ({"user": (0, "alice")}, True, [2]),
        ({"user": (2, None)}, False, [0, 2]),
        ({"client-id": (1, None), "user": (2, None)}, True, [0]),
        ({"user": (1, None)}, False, []),
        ({}, True, []),
        ({}, False, [0, 1, 2]),
    ],
)
def test_describe_client_quotas_filters_by_entity(
    broker: SimulatedBroker, wanted: dict[str, tuple[int, str | None]], strict: bool, matching: list[int]
) -> None:
    client, rate = broker.connect(), ("producer_byte_rate", 1.0)
    entities: list[dict[str, str | None]] = [ALICE, {"client-id": "c"}, {"user": "alice"}]
    for entity in entities:
        assert alter(client, entity, rate) == 0
    components = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, (how, name) in wanted.items()]
    answer = client.call(DescribeClientQuotasRequest(components=components, strict=strict))
    named = [{p.entity_type: p.entity_name for p in entry.entity} for entry in answer.entries]
    assert named == [entities[index] for index in matching]


def test_stored_scram_credential_follows_rfc_5802() -> None:
    """The StoredKey is the hash of the ClientKey. The salted password itself is not stored."""
    credentials, salted_password = ScramCredentials(), hashlib.pbkdf2_hmac("sha256", b"pencil", b"salt", 4096)
    (record,) = credentials.set("user", 1, b"salt", salted_password, 4096).records
    state = ClusterState(1)
    state.replay(record)
    kept = state.credentials.by_user["user"][1]
    assert kept.stored_key == hashlib.sha256(hmac.digest(salted_password, b"Client Key", "sha256")).digest()
    assert kept.server_key == hmac.digest(salted_password, b"Server Key", "sha256")
    assert salted_password not in (record.value or b"")


def test_number_of_stored_quotas_and_scram_users_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_quotas, "MAX_ENTITIES", 1)
    monkeypatch.setattr(scram_credentials, "MAX_USERS", 1)
    state = ClusterState(1)
    one, two = entity_of([("user", "a")]), entity_of([("user", "b")])
    for record in state.client_quotas.alter(one, {"producer_byte_rate": 1.0}).records:
        state.replay(record)
    for record in state.credentials.set("a", 1, b"", b"p", 4096).records:
        state.replay(record)
    assert state.client_quotas.alter(one, {"producer_byte_rate": 2.0}).records
    assert not ClientQuotas().alter(two, {"producer_byte_rate": None}).records
    with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
        state.client_quotas.alter(two, {"producer_byte_rate": 1.0})
    with pytest.raises(KafkaError, match="POLICY_VIOLATION"):
        state.credentials.set("b", 1, b"", b"p", 4096)


def test_lengths_of_user_names_and_passwords_are_limited() -> None:
    quotas, credentials = ClientQuotas(), ScramCredentials()
    for length, is_taken in ((1_000, True), (1_001, False)):
        for kind in ("user", "client-id"):
            with nullcontext() if is_taken else pytest.raises(KafkaError, match="POLICY_VIOLATION"):
                assert quotas.alter(entity_of([(kind, "a" * length)]), {"producer_byte_rate": 1.0}).records
        with nullcontext() if is_taken else pytest.raises(KafkaError, match="POLICY_VIOLATION"):
            assert credentials.set("a" * length, 1, b"", b"p", 4096).records
        with nullcontext() if is_taken else pytest.raises(KafkaError, match="UNACCEPTABLE_CREDENTIAL"):
            assert credentials.set("a", 1, b"", b"p" * length, 4096).records
