"""The broker's metrics, in Prometheus' format over HTTP.

- `connection_metrics`: connections and authentications by listener.
- `controller_metrics`: the metrics of a controller, under the names that the JMX exporter gives to Kafka's metrics.
- `controller_report`: the values for a controller's metrics.
- `exposition`: all metrics, under the names that dashboards for Kafka use.
- `metrics_endpoint`: the HTTP endpoint for the metrics of a broker or a controller, if configured.
- `quota_metrics`: the metrics of clients with quotas.
- `replica_metrics`: the metrics of a broker's replicas: leaders, in-sync sets, late transactions.
- `server`: serves the metrics over HTTP: on their own port, or as an app for another server.
"""
