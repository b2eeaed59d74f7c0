"""How an API is declared, found and given what it needs.

- `api`: the declaration of an API, and the arguments and results of its handler.
- `authorisation`: the permissions that Kafka's authorizer checks before a request is handled.
- `registry`: finds the APIs that a server offers: those with a schema in `protocol` and a module of the same name among its
  handlers.
- `services`: the parts of a broker that handlers of APIs, and others, may use.
"""
