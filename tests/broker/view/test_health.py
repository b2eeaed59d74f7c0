"""The state of the broker as a whole, which is the response to ``GET /v1/state``."""

from __future__ import annotations

import msgspec

from ottla.broker.view.brokers import brokers
from ottla.broker.view.health import health
from ottla.simulation.broker import DATA_DIR, SimulatedBroker


def test_health_state_as_json_has_all_fields_in_a_fixed_order() -> None:
    simulated = SimulatedBroker().start()
    broker = simulated.broker
    shown = msgspec.json.decode(msgspec.json.encode(health(broker)))
    assert list(shown) == ["bootstrap", "cluster_id", "data_dir", "is_sound", "problems", "strays", "unexpected_errors"]
    assert shown == {
        "bootstrap": broker.bootstrap,
        "cluster_id": broker.cluster_id,
        "data_dir": DATA_DIR,
        "is_sound": True,
        "problems": [],
        "strays": {"count": 0, "size_bytes": 0, "named": []},
        "unexpected_errors": 0,
    }
    assert [(node.node_id, node.address) for node in brokers(broker)] == [(broker.settings.node_id, broker.bootstrap)]
    simulated.close()
