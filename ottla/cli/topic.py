"""``ottla topic``: lists, describes, creates and deletes topics, and elects leaders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands import CommandGroup
from ottla.cli.options import COUNT, KEY_VALUE, TOPIC_PARTITION, asks, cluster_at, seen_by
from ottla.cli.output import note, progress, show_json, show_line, show_pairs, show_table

if TYPE_CHECKING:
    from ottla.client.admin.topics import Config, TopicDescription


@click.group("topic", cls=CommandGroup, help="Create, list, describe and delete topics, and elect leaders.")
def command() -> None:
    pass


@command.command("create", help="Create a topic.")
@click.argument("name", metavar="TOPIC")
@click.option("--partitions", type=COUNT, metavar="N", help="Number of partitions (default: the brokers' num.partitions).")
@click.option(
    "--replication-factor",
    "--replication",
    "replication",
    type=COUNT,
    metavar="N",
    help="Replicas per partition (default: the brokers' default.replication.factor).",
)
@click.option("--config", "configs", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Topic configuration; repeatable.")
@click.option("--if-missing", is_flag=True, help="Do nothing if the topic already exists.")
@asks
def create(
    name: str,
    partitions: int | None,
    replication: int | None,
    configs: tuple[tuple[str, str], ...],
    if_missing: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client import KafkaAnswered
    from ottla.client.admin.topics import BROKER_DEFAULT
    from ottla.protocol.errors import Code

    is_new = True
    with cluster_at(bootstrap, timeout_s) as cluster:
        try:
            cluster.create_topic(name, partitions or BROKER_DEFAULT, dict(configs), replication or BROKER_DEFAULT)
        except KafkaAnswered as refused:
            if not if_missing or refused.code != Code.TOPIC_ALREADY_EXISTS:
                raise
            is_new = False
    if as_json:
        show_json({"topic": name, "created": is_new})
    else:
        show_line(f"topic {name} was created" if is_new else f"topic {name} already exists")


@command.command("list", help="List topics.")
@click.option("--internal", is_flag=True, help="Include internal topics.")
@asks
def list_(internal: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    with cluster_at(bootstrap, timeout_s) as cluster:
        listings = cluster.topics(internal=internal)
        seen = seen_by(cluster, listings)
    if as_json:
        show_json([{"topic": t.name, "partitions": t.partitions, "replicas": t.replicas, "internal": t.internal} for t in listings])
    elif listings:
        show_table(["TOPIC", "PARTITIONS", "REPLICAS"], [(t.name, t.partitions, t.replicas) for t in listings])
    else:
        note(f"there are no topics{seen}; ottla topic create creates one")


@command.command("describe", help="Show partitions, offsets and configuration of a topic.")
@click.argument("name", metavar="TOPIC")
@click.option("--all-configs", is_flag=True, help="Include configurations that are at their default.")
@asks
def describe(name: str, all_configs: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    with cluster_at(bootstrap, timeout_s) as cluster:
        topic = cluster.topic(name)
    configs = [config for config in topic.configs if all_configs or config.own]
    if as_json:
        show_json(_document(topic, configs))
        return
    show_table(
        ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", "START", "STABLE", "END"],
        [
            (
                p.partition,
                p.leader,
                ",".join(map(str, p.replicas)),
                ",".join(map(str, p.in_sync)),
                p.log_start_offset,
                p.last_stable_offset,
                p.high_watermark,
            )
            for p in topic.partitions
        ],
    )
    if configs:
        click.echo()
        show_pairs((config.name, "(hidden)" if config.sensitive else config.value) for config in configs)
    waiting = [p for p in topic.partitions if p.last_stable_offset < p.high_watermark]
    if waiting:
        note(f"open transactions hold read_committed consumers in {len(waiting)} of them; ottla txn list shows the transactions")


def _document(topic: TopicDescription, configs: list[Config]) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id.hex(),
        "internal": topic.internal,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": p.replicas,
                "in_sync": p.in_sync,
                "log_start_offset": p.log_start_offset,
                "last_stable_offset": p.last_stable_offset,
                "high_watermark": p.high_watermark,
            }
            for p in topic.partitions
        ],
        "configs": {config.name: config.value for config in configs},
    }


@command.command("elect", help="Elect the preferred leaders of partitions, or with --unclean any replica where there is no leader.")
@click.argument("partitions", metavar="TOPIC:PARTITION...", nargs=-1, required=True, type=TOPIC_PARTITION)
@click.option(
    "--unclean", is_flag=True, help="Elect any running replica if there is no leader. Committed records that it lacks are lost."
)
@asks
def elect(partitions: tuple[tuple[str, int], ...], unclean: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin.leadership import described, elect_leader

    leaders = []
    with cluster_at(bootstrap, timeout_s) as cluster:
        for topic, partition in partitions:
            elect_leader(cluster.brokers, topic, partition, is_unclean=unclean)
            leader = described(cluster.brokers, topic, partition).leader_id
            leaders.append({"topic": topic, "partition": partition, "leader": leader})
            if not as_json:
                show_line(f"broker {leader} leads {topic}:{partition}")
    if as_json:
        show_json(leaders)


@command.command("delete", help="Delete topics and their records.")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@asks
def delete(names: tuple[str, ...], bootstrap: str, timeout_s: float, as_json: bool) -> None:
    with cluster_at(bootstrap, timeout_s) as cluster, progress("deleting topics", len(names)) as advance:
        for name in names:
            cluster.delete_topic(name)
            advance(1)
            if not as_json:
                show_line(f"topic {name} was deleted")
    if as_json:
        show_json({"deleted": list(names)})
