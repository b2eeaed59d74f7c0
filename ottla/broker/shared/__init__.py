"""The parts that a broker and a controller have in common (kafka.server.SharedServer).

- `shared_server`: builds these parts, and opens and closes them in order.
"""
