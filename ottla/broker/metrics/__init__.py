"""The broker's metrics, in Prometheus' format over HTTP.

- `controller_metrics`: the metrics of a controller, under the names that the JMX exporter gives Kafka's.
- `controller_report`: what a controller knows that its metrics say.
- `exposition`: all metrics, under the names that dashboards for Kafka use.
- `metrics_endpoint`: where the metrics of a broker or a controller are served over HTTP, if they are.
- `server`: serves the metrics over HTTP: at a port of their own, or by an app for another server.
- `socket_handover`: the parts of a broker that another broker in the same process takes over, on the same addresses.
"""
