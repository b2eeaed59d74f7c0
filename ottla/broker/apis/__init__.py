"""Declares APIs, finds them, and gives their handlers the services that they need.

- `api`: the declaration of an API, and the arguments and results of its handler.
- `authorisation`: the permissions that Kafka's authorizer checks before a request is handled.
- `authorizer_port`: the interface of an authorizer for handlers, and the authorizer that allows everything.
- `denials`: the newest actions that the authorizer has denied.
- `registry`: finds the APIs that a server offers. Each API has a schema in `protocol` and a handler module of the same name.
- `request_authorizer`: decides by ACLs whether a client has the permissions for its request.
- `services`: the parts of a broker that handlers of APIs, and other modules, may use.
"""
