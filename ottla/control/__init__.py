"""The control API: faults, clock, history and reset of a broker, for tests and people. The broker does not import this package.

- `clock`: a clock that advances only on command.
- `command`: commands of the control API: how a command is declared, and how it is refused.
- `commands`: the commands of the control API, by name.
- `durations`: parses durations as people write them: ``61s``, ``1h30m``, or a timedelta.
- `fault_commands`: the commands about faults.
- `history`: the newest events of each transactional id since the broker's process began.
- `http_api`: the HTTP server of the control API: requests carry a token, requests and responses are JSON.
- `pages`: the port through which the control API's server also serves pages to a browser, with the headers that protect them.
- `remote`: a client of the control API, for other processes.
- `timeline`: events of a transactional id that only a broker's control API knows: its requests and their clients, errors, and
  fenced producers.
"""
