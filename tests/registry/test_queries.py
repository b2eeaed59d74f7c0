"""Finding schemas in the state, without parsing them."""

from __future__ import annotations

import pytest

from ottla.client.schema_registry.references import MAX_REFERENCES
from ottla.registry.errors import RegistryError
from ottla.registry.formats.types import identity
from ottla.registry.queries import references_of
from ottla.registry.records import version_record
from ottla.registry.schema_text import JSON, Reference, SchemaText, Version
from ottla.registry.state import RegistryState


def _reference(number: int) -> Reference:
    return Reference(name=f"{number}.json", subject=f"s{number}", version=1)


def _chain(length: int, *, is_closed: bool = False) -> RegistryState:
    """Return a state in which schema N refers to N + 1. In a closed chain the last schema refers to the first."""
    state = RegistryState(identity)
    for number in range(length):
        further = (_reference(number + 1),) if number + 1 < length else (_reference(0),) if is_closed else ()
        schema = SchemaText(kind=JSON, text=f'{{"title":"{number}"}}', references=further)
        record = version_record(Version(subject=f"s{number}", version=1, schema_id=number + 1, schema=schema))
        state.replay(record.key, record.value)
    return state


@pytest.mark.parametrize("is_closed", [False, True])
def test_schema_references_come_before_the_schemas_that_use_them(is_closed: bool) -> None:
    texts = references_of(_chain(MAX_REFERENCES, is_closed=is_closed), [_reference(0), _reference(5)])
    assert [text.name for text in texts] == [f"{number}.json" for number in reversed(range(MAX_REFERENCES))]


def test_long_chain_of_schema_references_is_refused() -> None:
    with pytest.raises(RegistryError, match="at most 1,000 schemas") as error:
        references_of(_chain(20 * MAX_REFERENCES), [_reference(0)])
    assert error.value.code == 42201


def test_error_names_the_missing_schema_reference() -> None:
    with pytest.raises(RegistryError, match=r"the reference '2.json' is unknown: subject 's2' has no version 1"):
        references_of(_chain(2), [_reference(2)])
