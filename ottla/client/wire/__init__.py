"""Connections to brokers.

- `connection`: a connection to one broker: versions, correlation ids, several requests in flight, and authentication.
- `transport`: sends and receives bytes over TCP, with or without TLS.
"""
