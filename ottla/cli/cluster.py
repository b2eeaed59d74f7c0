"""``ottla cluster``: describes a cluster, and says which partitions have no leader."""

from __future__ import annotations

import click

from ottla.cli.options import asks, cluster_at
from ottla.cli.output import NOTHING, show_json, show_pairs, show_table


@click.command("cluster", help="Show the cluster id, brokers, feature levels, and partitions without a leader.")
@asks
def command(bootstrap: str, timeout_s: float, as_json: bool) -> None:
    from ottla.client.description import describe

    with cluster_at(bootstrap, timeout_s) as cluster:
        described = describe(cluster.brokers)
    if as_json:
        show_json(
            {
                "cluster_id": described.cluster_id,
                "controller": described.controller,
                "brokers": [{"id": n.node_id, "host": n.host, "port": n.port, "rack": n.rack} for n in described.brokers],
                "features": described.features,
                "leaderless": [
                    {
                        "topic": p.topic,
                        "partition": p.partition,
                        "replicas": p.replicas,
                        "offline": p.offline,
                        "reason": p.reason,
                        "remedy": p.remedy,
                    }
                    for p in described.leaderless
                ],
            }
        )
        return
    show_pairs([("cluster", described.cluster_id), ("controller", described.controller if described.controller >= 0 else NOTHING)])
    click.echo()
    show_table(["BROKER", "HOST", "PORT", "RACK"], [(n.node_id, n.host, str(n.port), n.rack or NOTHING) for n in described.brokers])
    if described.features:
        click.echo()
        show_table(["FEATURE", "LEVEL"], list(described.features.items()))
    if described.leaderless:
        click.echo()
        rows = [(f"{p.topic}:{p.partition}", p.reason, p.remedy) for p in described.leaderless]
        show_table(["WITHOUT LEADER", "BECAUSE", "WHAT TO DO"], rows)
