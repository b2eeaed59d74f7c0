"""Combines all faults that hit a request into one `Verdict`, which the broker carries out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from ottla.broker.hooks.interception import Delay, Ending, IncomingRequest, Verdict
from ottla.control.faults.added_fault import AddedFault
from ottla.control.faults.api_names import error_code
from ottla.control.faults.error_responses import Refusal, refuse
from ottla.control.faults.fault import Fault
from ottla.control.faults.rates import slowest

NOTHING = Refusal(None, None, None)


def verdict(incoming: IncomingRequest, triggered: list[AddedFault], kill: Callable[[], None]) -> Verdict:
    """Combine the delays and throttles of all ``triggered`` faults with the outcome, which only the last fault may determine."""
    last, fault = triggered[-1], triggered[-1].fault
    throttle_ms = max(added.fault.throttle_ms for added in triggered)
    held = {"before": None, "after": None} | ({str(fault.hold): last.latch} if fault.hold else {})
    refusal = _refusal(incoming, last)
    takes_effect = not (fault.drop_request or fault.cut == "before") and (refusal is NOTHING or refusal.complete is not None)
    return Verdict(
        held_before=last.latch if fault.freeze else held["before"],
        is_unread=fault.freeze,
        delays_before=tuple(Delay(added.fault.delay_ms, added.latch) for added in triggered if added.fault.delay_ms),
        rate=slowest([added.rate for added in triggered if added.rate is not None]),
        on_begin=kill if fault.kill == "before" else None,
        takes_effect=takes_effect,
        request=refusal.request,
        response=_throttled(refusal.response, throttle_ms),
        is_refused=fault.error is not None,
        complete=_completed(refusal.complete, throttle_ms) if takes_effect else None,
        on_effect=kill if fault.kill == "after" else None,
        ending=_ending(fault),
        held_after=held["after"],
        delays_after=tuple(Delay(added.fault.delay_answer_ms, added.latch) for added in triggered if added.fault.delay_answer_ms),
        mute_ms=throttle_ms,
    )


def _ending(fault: Fault) -> Ending:
    if fault.cut is not None:
        return Ending.CUT
    return Ending.SILENCE if fault.drop_request or fault.drop_answer else Ending.ANSWER


def _refusal(incoming: IncomingRequest, added: AddedFault) -> Refusal:
    """Return the response that replaces the handler's response, or `NOTHING` if the request is handled normally."""
    fault, matcher = added.fault, added.matcher
    if fault.error is not None:
        return refuse(incoming, error_code(fault.error), matcher.matches_place if matcher.names_places else None)
    if added.answer is not None:
        return Refusal(None, added.answer, None)
    return NOTHING


def _throttled(response: Any, throttle_ms: int) -> Any:
    if throttle_ms and response is not None and hasattr(response, "throttle_time_ms"):
        return replace(response, throttle_time_ms=throttle_ms)
    return response


def _completed(complete: Callable[[Any], Any] | None, throttle_ms: int) -> Callable[[Any], Any] | None:
    if complete is None and not throttle_ms:
        return None
    return lambda response: _throttled(response if complete is None else complete(response), throttle_ms)
