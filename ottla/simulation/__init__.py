"""Brokers, clients, clock, network and disks in one process, repeatable by a random seed. Only tests and tools import this package.

- `broker`: a broker without sockets, disk or real clock.
- `checker`: checks exactly-once semantics: compares the history with the final state.
- `client`: a client of a simulated broker.
- `committed_transactions`: checks the transactions of several brokers by committed records, batches and markers.
- `controller`: a controller without sockets, disk or real clock.
- `coroutines`: runs a server's start and stop in simulated time.
- `disk`: a machine's disk, with its faults.
- `env`: the environment (`Env`) of a simulated broker.
- `faults`: injects the faults of a plan into a simulation.
- `faulty_filesystem`: files in memory whose operations may fail.
- `history`: the requests of clients and their responses, for `simulation.checker`.
- `judging`: simulates a plan, and checks the result.
- `links`: the network between hosts, with its faults.
- `machines`: the brokers and the controller of a simulation.
- `memory_filesystem`: files in memory.
- `network`: in-memory connections that pass data from one asyncio protocol to another.
- `node`: one machine: its disk, and the successive processes of its server.
- `plan`: the plan of a simulation: its clients, and its faults with their times.
- `replicas`: checks invariants between the replicas of several brokers during a simulation.
- `running`: simulates many seeds on all cores, and shrinks failing plans.
- `scheduler`: simulated time: pending calls and when they are due.
- `tasks`: simulated clients as generators that the scheduler resumes.
- `torn_disk`: the states in which a kill or a power cut may leave files.
- `tracing_filesystem`: files in memory with a trace of all operations.
- `watch`: checks the transaction coordinators' states in memory after each step of a simulation.
- `world`: a simulation: brokers, clients, network and disks on one scheduler.
"""
