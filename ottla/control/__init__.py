"""The state of a broker that people steer and observe, as values. This room lies above the broker, which knows nothing of it.

- `clock`: a clock that stands still until somebody moves it.
- `command`: commands of the control API: how a command is declared, and how it is refused.
- `commands`: the commands of the control API, by name.
- `durations`: parses durations as people write them: ``61s``, ``1h30m``, or a timedelta.
- `fault_commands`: the commands about faults.
- `history`: the newest events of each transactional id since the broker's process began.
- `http_api`: the control API through which a broker is steered: HTTP with a token; requests and responses are JSON.
- `pages`: the port by which the control API serves pages to a browser, and what a browser is told and asked for its safety.
- `remote`: steers a broker through its control API from another process.
- `timeline`: events of a transactional id that only a broker's control API knows: its requests and their clients, errors, and
  fenced producers.
"""
