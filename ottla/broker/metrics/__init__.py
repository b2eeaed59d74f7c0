"""The broker's metrics, in Prometheus' format over HTTP."""
