"""What a person at a Python prompt sees of a document's values is short, whatever they hold."""

import pytest

from mcc.documents import Document, ReadOnlyNode
from tests.mcc.documents.blueprints import course

LONG = "A sentence about light. " * 400


@pytest.fixture(scope="module")
def document() -> Document:
    made = Document(course(), metadata={"topic": "Light"})
    made.dispatch([{"command": "add_child", "node": "/", "component": "lesson"} for _ in range(50)])
    return made


def test_values_of_a_document_are_printed_without_its_content(document: Document) -> None:
    change = document.dispatch({"command": "set_value", "node": "/", "values": {"title": LONG}})
    root = ReadOnlyNode(document.state, document.state.root)
    printed = [change, *change.steps, document.state, document.blueprint, root]
    assert max(len(repr(value)) for value in printed) < 500
    assert repr(change).startswith(f"Change(version={change.version}, changed=('/',")
    assert repr(root) == "ReadOnlyNode('/')"
    assert repr(document.blueprint).startswith(f"Blueprint('{document.blueprint.name}', 'sha256:")
