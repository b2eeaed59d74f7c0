"""The commands that add, list, wait for and remove faults."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ottla.control.command import Command, CommandRefused, ControlledBroker, NoParameters
from ottla.control.faults.matching import is_like
from ottla.control.faults.registry import AddedFault, Fault, FaultError, parse_faults

MAX_WAIT_MS = 30_000
"""Maximum time, in ms, that one request waits for hits of a fault. To wait longer a client sends further requests."""

MAX_NAMED = 10
"""Maximum number of fault ids in the error for an unknown fault."""


class WaitParameters(msgspec.Struct, forbid_unknown_fields=True):
    hits: int = 1
    timeout_ms: int = MAX_WAIT_MS


def _fault(controlled: ControlledBroker, number: int) -> AddedFault:
    added = controlled.faults.get(number)
    if added is None:
        raise CommandRefused(404, f"unknown fault {number}; {_those_that_there_are(controlled)}")
    return added


def _those_that_there_are(controlled: ControlledBroker) -> str:
    numbers = [str(added.id) for added in controlled.faults.all()]
    if not numbers:
        return "there are no faults"
    more = [f"{len(numbers) - MAX_NAMED} more"] if len(numbers) > MAX_NAMED else []
    return f"the ids are {', '.join(numbers[:MAX_NAMED] + more)}"


async def _all(controlled: ControlledBroker, _: NoParameters) -> Any:
    return msgspec.to_builtins([added.view() for added in controlled.faults.all()])


async def _add(controlled: ControlledBroker, faults: list[Fault]) -> Any:
    _check_listeners(controlled, faults)
    try:
        return msgspec.to_builtins([added.view() for added in controlled.faults.add_all(faults)])
    except FaultError as error:
        raise CommandRefused(409, str(error)) from None


def _check_listeners(controlled: ControlledBroker, faults: list[Fault]) -> None:
    """Raise `CommandRefused` for a fault whose TLS listener does not exist, because no listener can be added later."""
    patterns = [fault.listener for fault in faults if fault.fail_handshake]
    if not patterns:
        return
    # Imported here, because few faults fail TLS handshakes.
    from ottla.broker.view.brokers import tls_listeners

    names = tls_listeners(controlled.broker)
    for pattern in patterns:
        if not any(is_like(name, pattern) for name in names):
            known = f"the listeners with TLS are {', '.join(names)}" if names else "no listener has TLS"
            raise CommandRefused(400, f"no TLS handshake can fail on {pattern or 'any listener'}: {known}")


async def _clear(controlled: ControlledBroker, _: NoParameters) -> None:
    controlled.faults.clear()


async def _one(controlled: ControlledBroker, _: NoParameters, number: int) -> Any:
    return msgspec.to_builtins(_fault(controlled, number).view())


async def _remove(controlled: ControlledBroker, _: NoParameters, number: int) -> None:
    _fault(controlled, number).remove()


async def _wait(controlled: ControlledBroker, parameters: WaitParameters, number: int) -> Any:
    """Wait until the fault has the requested number of hits or the timeout expires. The response contains the actual number."""
    added = _fault(controlled, number)
    triggered = asyncio.Event()
    forget = added.when_hits(parameters.hits, triggered.set)
    try:
        async with asyncio.timeout(min(max(parameters.timeout_ms, 0), MAX_WAIT_MS) / 1_000):
            await triggered.wait()
    except TimeoutError:
        pass
    finally:
        forget()
    return {"hits": added.hits}


def _parsed(raw: bytes) -> list[Fault]:
    try:
        return parse_faults(raw)
    except FaultError as error:
        raise CommandRefused(400, str(error)) from None


FAULT_COMMANDS = (
    Command(method="GET", path="/v1/faults", run=_all),
    Command(method="POST", path="/v1/faults", run=_add, parse=_parsed),
    Command(method="DELETE", path="/v1/faults", run=_clear),
    Command(method="GET", path="/v1/faults/{number}", run=_one),
    Command(method="DELETE", path="/v1/faults/{number}", run=_remove),
    Command(method="POST", path="/v1/faults/{number}/wait", run=_wait, parameters=WaitParameters, waits=True),
)
