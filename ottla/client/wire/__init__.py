"""Connections to brokers.

- `connection`: a connection to one broker: versions, correlation ids, several requests in flight, and authentication.
- `transport`: how a connection sends and receives bytes: TCP, with TLS if that is configured.
"""
