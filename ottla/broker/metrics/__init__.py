"""The broker's metrics, in Prometheus' format over HTTP.

- `exposition`: all metrics, under the names that dashboards for Kafka use.
- `metrics_endpoint`: where the broker's metrics are served over HTTP, if they are.
- `server`: serves the metrics over HTTP: at a port of their own, or by an app for another server.
- `socket_handover`: the parts of a broker that another broker in the same process takes over, on the same addresses.
"""
