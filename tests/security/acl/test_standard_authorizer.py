"""The authorizer's rules: super users, DENY before ALLOW, wildcards, implied operations, and the default."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from benchmarks.acls import measured
from ottla.security.acl.acl_index import AclIndex
from ottla.security.acl.bindings import AclBinding
from ottla.security.acl.codes import AclOperation, PermissionType, ResourceType
from ottla.security.acl.standard_authorizer import NamedRule, StandardAuthorizer
from ottla.security.principal import KafkaPrincipal
from tests.security.acl.acls import ALICE, BOB, HOST, acl, authorizer
from tests.support.counting import LineMeter, slowness


def decides(acls: list[AclBinding], operation: str, name: str, principal: KafkaPrincipal = ALICE, host: str = HOST) -> bool:
    return authorizer(acls).decide(principal, host, AclOperation[operation], ResourceType.TOPIC, name).is_allowed


def test_authorizer_denies_every_operation_without_an_acl() -> None:
    decision = authorizer([]).decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "a")
    assert decision == (False, NamedRule.DEFAULT_DENY)


def test_super_user_is_allowed_although_an_acl_denies() -> None:
    decision = authorizer([acl("a", "READ", permission="DENY")], [ALICE]).decide(
        ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "a"
    )
    assert decision == (True, NamedRule.SUPER_USER)


def test_deny_acl_wins_over_allow_acl() -> None:
    acls = [acl("orders", "READ"), acl("ord", "ALL", permission="DENY", pattern="PREFIXED")]
    assert decides(acls[:1], "READ", "orders")
    assert not decides(acls, "READ", "orders")
    assert authorizer(acls).decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "orders").rule == acls[1]


def test_acl_with_an_unknown_permission_decides_nothing() -> None:
    """A later release of Kafka may have stored an ACL with an unknown permission in the directory."""
    index = AclIndex()
    unknown = acl("a", "READ")._replace(permission=PermissionType.UNKNOWN)
    index.add(unknown)
    assert index.deciding(ResourceType.TOPIC, "a", ALICE, HOST, AclOperation.READ) is None
    index.remove(unknown)


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"])
def test_allow_acl_for_read_write_delete_alter_or_all_implies_describe(operation: str) -> None:
    assert decides([acl("a", operation)], "DESCRIBE", "a")


def test_allow_acl_for_alter_configs_implies_describe_configs() -> None:
    assert decides([acl("a", "ALTER_CONFIGS")], "DESCRIBE_CONFIGS", "a")
    assert not decides([acl("a", "ALTER_CONFIGS")], "DESCRIBE", "a")


def test_deny_acl_for_read_does_not_deny_describe() -> None:
    acls = [acl("a", "DESCRIBE"), acl("a", "READ", permission="DENY")]
    assert decides(acls, "DESCRIBE", "a")
    assert not decides(acls, "READ", "a")


def test_acl_wildcards_for_resource_principal_and_host_match_all() -> None:
    assert decides([acl("*", "READ", principal="User:*")], "READ", "any", KafkaPrincipal("Role", "any"))
    assert not decides([acl("*", "READ", principal="User:bob")], "READ", "any")


def test_wildcard_acl_resource_is_not_a_prefix() -> None:
    # As in Kafka's StandardAuthorizerData, an ACL for all topics ("*") does not apply to a topic whose name begins with "*".
    assert not decides([acl("*", "READ")], "READ", "*any")
    assert decides([acl("*", "READ")], "READ", "*")


def test_prefixed_acl_applies_only_to_names_that_begin_with_it() -> None:
    acls = [acl("team-", "READ", pattern="PREFIXED"), acl("team-a-", "WRITE", pattern="PREFIXED"), acl("team-b", "CREATE")]
    assert decides(acls, "READ", "team-a-orders")
    assert decides(acls, "WRITE", "team-a-orders")
    assert not decides(acls, "WRITE", "team-b")
    assert not decides(acls, "READ", "team")


def test_prefixed_acl_applies_although_acls_with_longer_prefixes_exist() -> None:
    acls = [acl(name, "READ", pattern="PREFIXED") for name in ("a", "ab", "abca", "abcb", "b")]
    index = authorizer(acls)
    for name, expected in (("abcz", "a"), ("abc", "a"), ("az", "a"), ("b", "b")):
        rule = index.decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, name).rule
        assert isinstance(rule, AclBinding)
        assert rule.resource_name == expected, name


def test_acl_for_a_host_does_not_apply_to_another_host() -> None:
    acls = [acl("a", "READ", host="10.0.0.0/8"), acl("a", "READ", host="192.168.1.9")]
    assert decides(acls, "READ", "a", host="10.20.30.40")
    assert decides(acls, "READ", "a", host="192.168.1.9")
    assert not decides(acls, "READ", "a", host="192.168.1.8")


def test_allow_everyone_if_no_acl_found_applies_only_to_resources_without_acls() -> None:
    lenient = authorizer([acl("a", "READ", principal="User:bob")], allows=True)
    decided = [lenient.decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, name) for name in ("a", "b")]
    assert decided == [(False, NamedRule.DEFAULT_DENY), (True, NamedRule.DEFAULT_ALLOW)]


def test_authorizer_decision_changes_when_acls_are_added_and_removed() -> None:
    index = AclIndex()
    strict = StandardAuthorizer(index, frozenset(), allows_without_acl=False)
    allowed: Callable[[], bool] = lambda: strict.decide(ALICE, HOST, AclOperation.READ, ResourceType.TOPIC, "abc").is_allowed  # noqa: E731
    rule, other = acl("ab", "READ", pattern="PREFIXED"), acl("a", "READ", pattern="PREFIXED")
    seen = [allowed()]
    for change, changed in ((index.add, other), (index.add, rule), (index.remove, other), (index.remove, rule)):
        change(changed)
        seen.append(allowed())
    assert seen == [False, True, True, True, False]
    assert not index.has_resource(ResourceType.TOPIC, "abc")


@pytest.mark.parametrize("seed", range(20))
def test_decisions_after_changes_are_those_of_a_new_index_with_the_same_acls(seed: int) -> None:
    rng = random.Random(seed)
    index, present = AclIndex(), list[AclBinding]()
    changed = StandardAuthorizer(index, frozenset(), allows_without_acl=False)
    rules = set()
    for _ in range(60):
        if len(present) > 4:
            index.remove(present.pop(rng.randrange(len(present))))
        else:
            each = acl(
                rng.choice(("a", "ab", "*")),
                rng.choice(("READ", "ALL")),
                principal=rng.choice(("User:alice", "User:*")),
                host=rng.choice(("*", "*", HOST, "192.168.1.0/24")),
                permission=rng.choice(("ALLOW", "ALLOW", "DENY")),
                pattern=rng.choice(("LITERAL", "PREFIXED")),
            )
            if each not in present:
                present.append(each)
                index.add(each)
        new = authorizer(rng.sample(present, len(present)))
        for name in ("a", "ab"):
            for host in (HOST, "10.0.0.1"):
                action = (ALICE, host, AclOperation.READ, ResourceType.TOPIC, name)
                decision = changed.decide(*action)
                assert decision == new.decide(*action), (present, action)
                rules.add(decision.rule)
    assert len(rules) > 10


def test_acl_with_a_malformed_principal_applies_to_no_client() -> None:
    assert not decides([acl("a", "READ", principal="alice")], "READ", "a")


def test_authorize_by_resource_type_needs_one_allowed_resource_that_is_not_denied() -> None:
    def allows(*acls: AclBinding) -> bool:
        return authorizer(acls).authorize_by_resource_type(ALICE, HOST, AclOperation.WRITE, ResourceType.TOPIC)

    deny = {"permission": "DENY"}
    assert allows(acl("a", "WRITE"))
    assert not allows(acl("a", "WRITE"), acl("a", "ALL", **deny))
    assert not allows(acl("abc", "WRITE"), acl("a", "WRITE", pattern="PREFIXED", **deny))
    assert allows(acl("abc", "WRITE", pattern="PREFIXED"), acl("abcd", "WRITE", pattern="PREFIXED", **deny))
    assert not allows(acl("a", "WRITE"), acl("*", "WRITE", **deny))
    assert not allows(acl("a", "READ"), acl("a", "WRITE", principal="User:bob"), acl("a", "WRITE", resource_type="GROUP"))


def test_authorizer_names_the_deciding_rule_in_kafkas_words() -> None:
    rule = acl("txn-", "WRITE", pattern="PREFIXED", resource_type="TRANSACTIONAL_ID")
    action = (AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "txn-1")
    assert authorizer([rule]).decide(ALICE, HOST, *action).rule_text == (
        "MatchingAcl(acl=StandardAcl[resourceType=TRANSACTIONAL_ID, resourceName=txn-, patternType=PREFIXED, principal=User:alice,"
        " host=*, operation=WRITE, permissionType=ALLOW])"
    )
    assert authorizer([]).decide(BOB, HOST, *action).rule_text == "DefaultDeny"


def check_lines(principals: int, name: str) -> tuple[float, float]:
    """Return how many lines of Python a first and a repeated check of one topic execute.

    Each of ``principals`` principals has an ACL for the topic ``orders``.
    """
    checked = authorizer(acl("orders", "READ", principal=f"User:u{number}") for number in range(principals))
    costs = []
    for _ in range(2):
        meter = LineMeter()
        meter.run(lambda: checked.decide(KafkaPrincipal("User", "u7"), HOST, AclOperation.READ, ResourceType.TOPIC, name))
        costs.append(meter.longest)
    return costs[0], costs[1]


@pytest.mark.parametrize("name", ["orders", "unknown"])
def test_acl_check_of_one_topic_does_not_compare_acls_of_other_topics(name: str) -> None:
    first, repeated = check_lines(1_000, name)
    assert (first, repeated) == check_lines(10, name)
    assert first <= 70
    assert repeated <= 13


@pytest.mark.nightly
def test_first_check_with_a_thousand_acls_takes_less_than_3_us() -> None:
    first, repeated = measured(1_000)
    assert min(first) < 3 * slowness()
    assert min(repeated) < 1 * slowness()
