"""A bounded HTTP server on its own threads, for metrics, the control API and the schema registry.

- `host_header`: refuses requests to other host names, against DNS rebinding.
- `http_requests`: answers one HTTP request of a client, which h11 parses, within the limits of `http_server`.
- `http_server`: an HTTP server for a bounded number of clients, each with a bounded time for its request.
"""
