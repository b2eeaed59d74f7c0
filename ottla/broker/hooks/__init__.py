"""Interfaces through which `ottla.control` observes and changes requests and transactions.

- `interception`: the interface by which tests inject faults into requests and transactions.
- `transaction_history`: the port to a listener that records events of transactional ids that are in no log: requests, errors,
  fencings.
"""
