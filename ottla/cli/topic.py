"""``ottla topic``: lists, describes, creates, alters and deletes topics, and elects leaders."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import COUNT, KEY_VALUE, TOPIC_PARTITION, asks, cluster_at, seen_by
from ottla.cli.output import NOTHING, note, printable, progress, show_json, show_line, show_pairs, show_table
from ottla.protocol.internal_topics import INTERNAL_STATE

if TYPE_CHECKING:
    from ottla.client import KafkaClient
    from ottla.client.admin.topics import Config, TopicDescription


@click.group("topic", cls=CommandGroup, help="Create, list, describe, alter and delete topics, and elect leaders.")
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
    from ottla.client.admin.config_effects import effect_warnings, without_effect
    from ottla.client.admin.topics import BROKER_DEFAULT, ConfigKind
    from ottla.protocol.errors import Code

    is_new = True
    with cluster_at(bootstrap, timeout_s) as cluster:
        try:
            cluster.create_topic(name, partitions or BROKER_DEFAULT, dict(configs), replication or BROKER_DEFAULT)
        except KafkaAnswered as refused:
            if not if_missing or refused.code != Code.TOPIC_ALREADY_EXISTS:
                raise
            is_new = False
        unused = without_effect(cluster.brokers, ConfigKind.TOPIC, name, dict(configs)) if is_new else []
    for warning in effect_warnings(unused):
        note(warning)
    if as_json:
        show_json({"topic": name, "created": is_new, "without_effect": unused})
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
                p.leader if p.leader >= 0 else "none",
                ",".join(map(str, p.replicas)),
                ",".join(map(str, p.in_sync)),
                *(NOTHING if offset is None else offset for offset in (p.log_start_offset, p.last_stable_offset, p.high_watermark)),
            )
            for p in topic.partitions
        ],
    )
    if configs:
        click.echo()
        show_pairs((config.name, "(hidden)" if config.sensitive else config.value) for config in configs)
    leaderless = sum(p.leader < 0 for p in topic.partitions)
    if leaderless:
        note(f"{leaderless} of {len(topic.partitions)} partitions have no leader; ottla cluster says why, and what to do")
    waiting = [p for p in topic.partitions if p.last_stable_offset != p.high_watermark]
    if waiting:
        note(
            f"open transactions block read_committed consumers in {len(waiting)} partitions; ottla txn list shows the transactions"
        )


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


@command.command("alter", help="Add partitions to a topic, and set or reset its configuration.")
@click.argument("name", metavar="TOPIC")
@click.option("--partitions", type=COUNT, metavar="N", help="New, larger number of partitions; keys may move to other partitions.")
@click.option("--config", "configs", type=KEY_VALUE, multiple=True, metavar="KEY=VALUE", help="Configuration to set; repeatable.")
@click.option("--unset", multiple=True, metavar="KEY", help="Configuration to return to its default; repeatable.")
@asks
def alter(
    name: str,
    partitions: int | None,
    configs: tuple[tuple[str, str], ...],
    unset: tuple[str, ...],
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin.config_effects import effect_warnings, without_effect
    from ottla.client.admin.topics import ConfigKind, add_partitions, set_configs

    changes: dict[str, str | None] = {**dict(configs), **dict.fromkeys(unset)}
    if partitions is None and not changes:
        raise click.UsageError("nothing to alter; give --partitions, --config or --unset")
    for key in {key for key, _ in configs} & set(unset):
        raise click.UsageError(f"--config and --unset exclude each other for {key!r}; give one of them")
    with cluster_at(bootstrap, timeout_s) as cluster:
        before = len(cluster.brokers.partitions(name))
        if partitions is not None and partitions < before:
            raise Refused(f"topic {name!r} has {before} partitions, and Kafka cannot remove any; give {before} or more")
        if changes:
            set_configs(cluster.brokers, ConfigKind.TOPIC, name, changes)
        if partitions is not None and partitions > before:
            add_partitions(cluster.brokers, name, partitions)
        unused = without_effect(cluster.brokers, ConfigKind.TOPIC, name, dict(configs))
    for warning in effect_warnings(unused):
        note(warning)
    after = partitions or before
    if as_json:
        document = {"topic": name, "partitions": {"before": before, "after": after}, "configs": changes, "without_effect": unused}
        show_json(document)
        return
    if partitions is not None:
        show_line(f"topic {name} has {after} partitions" + (f", before {before}" if after > before else " already"))
    for key, value in changes.items():
        show_line(f"{key} was reset to its default" if value is None else f"{key} is {value}")


@command.command("elect", help="Elect the preferred leaders of partitions; with --unclean, any replica of a leaderless partition.")
@click.argument("partitions", metavar="TOPIC:PARTITION...", nargs=-1, required=True, type=TOPIC_PARTITION)
@click.option(
    "--unclean",
    is_flag=True,
    help="Elect any running replica if there is no leader; committed records that the replica lacks are lost.",
)
@click.option("--to", "to", type=int, metavar="BROKER", help="Make the in-sync replica on this broker the preferred leader.")
@asks
def elect(
    partitions: tuple[tuple[str, int], ...], unclean: bool, to: int | None, bootstrap: str, timeout_s: float, as_json: bool
) -> None:
    from ottla.client import KafkaAnswered

    if unclean and to is not None:
        raise click.UsageError("--unclean and --to exclude each other; give one of them")
    leaders = []
    failures = []
    with cluster_at(bootstrap, timeout_s) as cluster:
        for topic, partition in partitions:
            try:
                leader = _elected(cluster, topic, partition, is_unclean=unclean, to=to)
            except KafkaAnswered as refused:
                failures.append(str(refused))
                continue
            leaders.append({"topic": topic, "partition": partition, "leader": leader})
            if not as_json:
                show_line(f"broker {leader} leads {topic}:{partition}")
    if as_json:
        show_json(leaders)
    if failures:
        raise Refused("; ".join(failures))


def _elected(cluster: KafkaClient, topic: str, partition: int, *, is_unclean: bool, to: int | None) -> int:
    from ottla.client.admin.leadership import described, elect_leader, move_leader, wait_for_leader

    if to is None:
        elect_leader(cluster.brokers, topic, partition, is_unclean=is_unclean)
    else:
        move_leader(cluster.brokers, topic, partition, to)
        wait_for_leader(cluster.brokers, topic, partition, to)
    return described(cluster.brokers, topic, partition).leader_id


@command.command("delete", help="Delete topics and their records. Internal topics are deleted only after a confirmation.")
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--yes", "is_confirmed", is_flag=True, help="Delete internal topics without asking.")
@asks
def delete(names: tuple[str, ...], is_confirmed: bool, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin.topics import existing

    names = tuple(dict.fromkeys(names))
    with cluster_at(bootstrap, timeout_s) as cluster:
        # Look up all topics first, so that a misspelled name deletes nothing.
        topics = existing(cluster.brokers, names)
        if not is_confirmed:
            _confirm([printable(topic.name) for topic in topics if topic.is_internal])
        with progress("deleting topics", len(names)) as advance:
            for name in names:
                cluster.delete_topic(name)
                advance(1)
                if not as_json:
                    show_line(f"topic {name} was deleted")
    if as_json:
        show_json({"deleted": list(names)})


def _confirm(internal: list[str]) -> None:
    """Ask before internal topics are deleted. Raises `Refused` if stdin is not a terminal, or if the answer is not yes."""
    if not internal:
        return
    what = f"{', '.join(internal)} {'is an internal topic' if len(internal) == 1 else 'are internal topics'}"
    lost = "; ".join(text for name, text in INTERNAL_STATE.items() if name in internal)
    if not sys.stdin.isatty():
        raise Refused(f"{what}, and deleting loses {lost or 'its state'}; give --yes to delete anyway")
    try:
        is_wanted = click.confirm(f"{what}. Deleting loses {lost or 'its state'}. Delete?", err=True)
    except click.Abort:
        is_wanted = False
    if not is_wanted:
        raise Refused("nothing was deleted", exit_code=1)
