"""``ottla group``: lists, describes and changes groups of all types."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ottla.cli.commands import CommandGroup, Refused
from ottla.cli.options import LISTED_IN_PART, asks, check_all_answered, cluster_at, seen_by, topics_option
from ottla.cli.output import NOTHING, note, short, show_json, show_line, show_pairs, show_table
from ottla.cli.positions import PLACE

if TYPE_CHECKING:
    from ottla.client import ClientError
    from ottla.client.admin.groups import GroupDescription
    from ottla.client.admin.places import Place


@click.group("group", cls=CommandGroup, help="List, describe and delete groups of all types, and set or delete their offsets.")
def command() -> None:
    pass


@command.command("list", help=f"List the groups of all coordinators. {LISTED_IN_PART}")
@asks
def list_(bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin import groups

    silent: list[ClientError] = []
    with cluster_at(bootstrap, timeout_s) as cluster:
        listings = groups.list_groups(cluster.brokers, silent=silent)
        seen = seen_by(cluster, listings or silent)
    if as_json:
        show_json([{"group": g.group_id, "type": g.group_type, "state": g.state, "coordinator": g.coordinator} for g in listings])
    elif listings:
        show_table(
            ["GROUP", "TYPE", "STATE", "COORDINATOR"], [(short(g.group_id), g.group_type, g.state, g.coordinator) for g in listings]
        )
    elif not silent:
        note(f"there are no groups{seen}")
    check_all_answered(silent)


@command.command("describe", help="Show the members of a group with their partitions, and the group's offsets and lag.")
@click.argument("group", metavar="GROUP")
@asks
def describe(group: str, bootstrap: str, timeout_s: float, as_json: bool) -> None:
    with cluster_at(bootstrap, timeout_s) as cluster:
        described = cluster.group(group)
    if as_json:
        _show_document(described)
        return
    pairs = [("group", described.group_id), ("type", described.group_type), ("state", described.state)]
    if described.epoch is not None:
        pairs.append(("epoch", str(described.epoch)))
    if described.assignor:
        pairs.append(("assignor", described.assignor))
    show_pairs([*pairs, ("lag", _lag_text(described))])
    if described.members:
        click.echo()
        show_table(
            ["MEMBER", "INSTANCE", "CLIENT", "HOST", "HAS"],
            [
                (short(m.member_id), short(m.instance_id or NOTHING), short(m.client_id), m.host, _assignment(m.assignment))
                for m in sorted(described.members, key=lambda m: m.member_id)
            ],
        )
    if described.positions:
        owners = {partition: short(m.client_id) for m in described.members for partition in m.partitions}
        click.echo()
        show_table(
            ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT"],
            [
                (
                    p.topic,
                    p.partition,
                    _or_nothing(p.committed),
                    p.end,
                    _or_nothing(p.lag),
                    owners.get((p.topic, p.partition), NOTHING),
                )
                for p in described.positions
            ],
        )


def _lag_text(described: GroupDescription) -> str:
    from ottla.client.admin.positions import total_lag
    from ottla.client.wording import counted

    total = total_lag(described.positions)
    if not total.uncommitted:
        return f"{total.known:,}"
    without = f"no committed offset in {counted(total.uncommitted, 'partition')} (from earliest {total.from_earliest:,})"
    return without if total.uncommitted == len(described.positions) else f"{total.known:,}; {without}"


def _or_nothing(number: int | None) -> str | int:
    return NOTHING if number is None else number


def _assignment(assignment: dict[str, list[int]]) -> str:
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in sorted(assignment.items())) or NOTHING


def _show_document(described: GroupDescription) -> None:
    show_json(
        {
            "group": described.group_id,
            "type": described.group_type,
            "state": described.state,
            "epoch": described.epoch,
            "assignor": described.assignor,
            "members": [
                {
                    "member_id": m.member_id,
                    "instance_id": m.instance_id,
                    "client_id": m.client_id,
                    "host": m.host,
                    "epoch": m.epoch,
                    "assignment": m.assignment,
                }
                for m in described.members
            ],
            "offsets": [
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    "committed": p.committed,
                    "end": p.end,
                    "lag": p.lag,
                    "from_earliest": p.unread if p.committed is None else None,
                }
                for p in described.positions
            ],
        }
    )


@command.command("reset", help="Set the offsets of a group that has no members. The group is created if it does not exist.")
@click.argument("group", metavar="GROUP")
@click.option(
    "--to",
    type=PLACE,
    required=True,
    metavar="PLACE",
    help="New position: beginning, end, an offset, or a time such as 2026-11-23T17:00Z.",
)
@topics_option("Topic or partition to set; repeatable (default: all partitions with a committed offset).")
@click.option("--dry-run", is_flag=True, help="Show the new offsets without setting them.")
@asks
def reset(
    group: str,
    to: Place,
    topics: tuple[tuple[str, int | None], ...],
    dry_run: bool,
    bootstrap: str,
    timeout_s: float,
    as_json: bool,
) -> None:
    from ottla.client.admin import groups
    from ottla.client.admin.resets import plan_reset

    with cluster_at(bootstrap, timeout_s) as cluster:
        planned = plan_reset(cluster.brokers, group, to.offsets, topics)
        if not planned:
            raise Refused(f"group {group!r} has no committed offsets at {bootstrap}; give the topics with --topic")
        for p in planned:
            if p.after != p.wanted:
                note(f"{p.topic}:{p.partition} has offsets {p.start:,} to {p.end:,}; offset {p.after:,} is used")
        if not dry_run:
            groups.commit(cluster.brokers, group, {(p.topic, p.partition): p.after for p in planned})
    if as_json:
        offsets = [{"topic": p.topic, "partition": p.partition, "before": p.before, "after": p.after} for p in planned]
        show_json({"group": group, "dry_run": dry_run, "offsets": offsets})
        return
    show_table(
        ["TOPIC", "PARTITION", "BEFORE", "AFTER"],
        [(p.topic, p.partition, str(NOTHING if p.before is None else p.before), p.after) for p in planned],
    )
    if dry_run:
        note("nothing was set: --dry-run was given")


DELETE_OFFSETS_HELP = """Delete a group's committed offsets of topics or partitions. No member of the group may subscribe to these
topics. Of a share group the offsets of whole topics can be deleted."""


@command.command("delete-offsets", help=DELETE_OFFSETS_HELP)
@click.argument("group", metavar="GROUP")
@topics_option("Topic or partition whose committed offsets are deleted; repeatable.", required=True)
@click.option("--dry-run", is_flag=True, help="Show the committed offsets without deleting them.")
@asks
def delete_offsets(
    group: str, topics: tuple[tuple[str, int | None], ...], dry_run: bool, bootstrap: str, timeout_s: float, as_json: bool
) -> None:
    from ottla.client.admin import offset_deletion

    with cluster_at(bootstrap, timeout_s) as cluster:
        planned = offset_deletion.plan_offset_deletion(cluster.brokers, group, topics)
        if not dry_run:
            offset_deletion.delete_offsets(cluster.brokers, group, [(p.topic, p.partition) for p in planned])
    if as_json:
        offsets = [{"topic": p.topic, "partition": p.partition, "committed": p.committed} for p in planned]
        show_json({"group": group, "dry_run": dry_run, "offsets": offsets})
        return
    show_table(["TOPIC", "PARTITION", "COMMITTED"], [(p.topic, p.partition, _or_nothing(p.committed)) for p in planned])
    note("nothing was deleted: --dry-run was given" if dry_run else f"these committed offsets of group {group} were deleted")


@command.command("delete", help="Delete groups that have no members, with their committed offsets.")
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@asks
def delete(names: tuple[str, ...], bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.admin import groups

    names = tuple(dict.fromkeys(names))
    with cluster_at(bootstrap, timeout_s) as cluster:
        listings = {listing.group_id: listing for listing in cluster.groups()}
        # Check all groups first, so that a misspelled name deletes nothing.
        for name in names:
            groups.check_deletable(cluster.brokers, name, listings.get(name))
        for name in names:
            groups.delete(cluster.brokers, name)
            if not as_json:
                show_line(f"group {name} was deleted")
    if as_json:
        show_json({"deleted": list(names)})
