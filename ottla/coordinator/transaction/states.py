"""The transitions between the states of a transactional id (org.apache.kafka.coordinator.transaction.TransactionState)."""

from __future__ import annotations

from ottla.protocol.transaction_states import TxnState

S = TxnState

VALID_PREVIOUS: dict[TxnState, frozenset[TxnState]] = {
    S.EMPTY: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.ONGOING: frozenset({S.ONGOING, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    S.PREPARE_ABORT: frozenset({S.ONGOING, S.PREPARE_EPOCH_FENCE, S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
    S.DEAD: frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}),
    # PREPARE_EPOCH_FENCE is never logged: one command fences the epoch with it and then aborts.
    S.PREPARE_EPOCH_FENCE: frozenset({S.ONGOING}),
}

PREPARED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
COMPLETED = frozenset({S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
AT_REST = COMPLETED | {S.EMPTY}
BY_LABEL = {state.label: state for state in TxnState}


class IllegalTransactionTransition(Exception):
    """Raised for a forbidden change of a transaction's state: a bug."""


def check_transition(before: TxnState, after: TxnState) -> None:
    if before not in VALID_PREVIOUS[after]:
        raise IllegalTransactionTransition(f"{before.label} -> {after.label}")


def decision(commit: bool) -> TxnState:
    """Return the state of a decided transaction with pending markers."""
    return TxnState.PREPARE_COMMIT if commit else TxnState.PREPARE_ABORT


def outcome(commit: bool) -> TxnState:
    """Return the state of a transaction whose markers are all written."""
    return TxnState.COMPLETE_COMMIT if commit else TxnState.COMPLETE_ABORT
