"""A bounded HTTP server on its own threads, for metrics and the control API.

- `http_requests`: reads HTTP requests and writes the responses with wsgiref, within the limits of `http_server`.
- `http_server`: an HTTP server for a bounded number of clients, each with a bounded time for its request.
"""
