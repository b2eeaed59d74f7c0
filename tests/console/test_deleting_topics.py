"""The preview of a topic's deletion, of a simulated broker: committed offsets that lose their topic, and topics created again."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest

from ottla.client.admin.topic_groups import TopicGroups
from ottla.client.errors import Unreachable
from ottla.console.actions import topics
from ottla.console.actions.registry import carried_out
from tests.broker.view.viewed_world import ViewedWorld


def previewed(world: ViewedWorld, topic: str) -> dict[str, Any]:
    body = json.dumps({"topic": topic}).encode()
    return carried_out("delete-topic", body, lambda: world.client, ["--bootstrap", "b:1"], is_preview=True)


def test_console_names_the_groups_with_committed_offsets_before_it_deletes_a_topic() -> None:
    with closing(ViewedWorld()) as world:
        world.do("topic t partitions=2", "topic u", "commit_offsets both t=1 t/1=0", "commit_offsets one t=1 u=1")
        world.do("commit_offsets other u=1", "M = share sharing topics=t")
        shown = previewed(world, "t")
        assert shown["columns"] == ["group with committed offsets", "state", "partitions"]
        assert shown["rows"] == [["both", "Empty", 2], ["one", "Empty", 1]]
        assert "could not be" not in shown["warning"]


def test_console_shows_no_table_of_groups_for_a_topic_without_committed_offsets() -> None:
    with closing(ViewedWorld()) as world:
        world.do("topic t", "topic u", "commit_offsets other u=1")
        shown = previewed(world, "t")
        assert (shown["columns"], shown["rows"]) == ([], [])


@pytest.mark.parametrize("is_enabled", ["true", "false"])
def test_console_warns_that_a_running_client_may_create_a_deleted_topic_again(is_enabled: str) -> None:
    with closing(ViewedWorld(auto_create_topics_enable=is_enabled)) as world:
        world.do("topic t")
        warning = previewed(world, "t")["warning"]
        assert ("a running client may create the topic again" in warning.lower()) == (is_enabled == "true")


def test_console_counts_records_before_it_deletes_a_topic() -> None:
    with closing(ViewedWorld()) as world:
        world.do("topic t partitions=2")
        assert previewed(world, "t")["warning"] == "2 partitions with no records will be deleted; this cannot be undone"
        world.do("P = init", "produce P t n=3")
        assert (
            "2 partitions with up to 3 records (transaction markers count too) will be deleted;" in previewed(world, "t")["warning"]
        )


def test_console_says_that_groups_could_not_be_read_before_it_deletes_a_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(ViewedWorld()) as world:
        world.do("topic t")
        assert "could not be read" not in previewed(world, "t")["warning"]
        found = TopicGroups([], 3, [Unreachable("broker 2 does not answer")])
        monkeypatch.setattr(topics, "topic_groups", lambda brokers, topic, indexes: found)
        shown = previewed(world, "t")
        assert shown["warning"].endswith(
            "More groups may have committed offsets for this topic: some groups could not be listed (broker 2 does not answer),"
            " and the offsets of 3 groups could not be read"
        )
        assert (shown["columns"], shown["rows"]) == ([], [])
