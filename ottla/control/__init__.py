"""The control API: faults, clock, history and reset of a broker, for tests and people. The broker does not import this package.

- `argument_types`: checks the types of arguments of public methods that tests call.
- `client_commands`: the commands that end connections and sessions of clients.
- `clock`: a clock that advances only on command.
- `command`: the declaration of a command, the objects that commands use, and the error of a refused command.
- `commands`: the list of commands.
- `controller_api`: the control API of a controller that is not in a broker's process. It lists denied requests.
- `durations`: parses durations: ``61s``, ``1h30m``, or a timedelta.
- `fault_commands`: the commands for faults.
- `history`: the newest events of each transactional id since the start of the broker's process.
- `http_api`: the HTTP server of the control API: requests carry a token, requests and responses are JSON.
- `kept_access`: stores the console's port and token, so that a restart does not change them.
- `page_requests`: answers the requests of browsers for pages.
- `page_server`: an HTTP server for pages, in a process without a broker.
- `pages`: the interface for pages that the control server serves to browsers, and their security headers.
- `remote`: a client of the control API, for other processes.
- `timeline`: events of a transactional id that no log contains: its requests and their clients, errors, and fenced producers.
"""
