"""A bounded HTTP server on its own threads, for metrics and the control API.

- `http_requests`: answers one HTTP request of a client, which h11 parses, within the limits of `http_server`.
- `http_server`: an HTTP server for a bounded number of clients, each with a bounded time for its request.
"""
