"""For random ACLs, ottla's authorizer decides like Apache Kafka's StandardAuthorizer, and by the same rule."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ottla.security.acl.principals import parse_super_users
from tests.security.acl.acls import Question, authorizer, made_up
from tests.security.acl.kafkas_authorizer import kafkas_answers

pytestmark = [pytest.mark.full, pytest.mark.java]

SEEDS = {"short": (1, 500), "long": (2, 20_000)}
"""Seed and number of random sets of ACLs, for the short and the long form of the test."""


@pytest.mark.parametrize("form", SEEDS)
def test_random_acl_checks_are_decided_like_by_kafka(form: str) -> None:
    seed, count = SEEDS[form]
    rng = random.Random(seed)
    questions = [made_up(rng) for _ in range(count)]
    answers = kafkas_answers(questions)
    assert len(answers) == count
    differing = [
        (question, ours, kafkas)
        for question, kafkas in zip(questions, answers, strict=True)
        if (ours := answered(question)) != kafkas
    ]
    assert differing[:1] == []


def answered(question: Question) -> dict[str, Any]:
    decides = authorizer(question.acls, parse_super_users(question.super_users), allows=question.allows_without_acl)
    rules = []
    for check in question.checks:
        decision = decides.decide(check.principal, check.host, check.operation, check.resource_type, check.name)
        rules.append(f"{'ALLOWED' if decision.is_allowed else 'DENIED'} {decision.rule_text}")
    by_type = [
        decides.authorize_by_resource_type(check.principal, check.host, check.operation, check.resource_type)
        for check in question.by_type
    ]
    filtered = [[at for at, acl in enumerate(question.acls) if each.matches(acl)] for each in question.filters]
    return {"rules": rules, "by_type": by_type, "filtered": filtered}
