"""Documents made from blueprints: typed nodes, their rules, the commands that change them. Reads no unnamed files."""

from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, DispatchRefused, Step
from mcc.documents.document import Document
from mcc.documents.functions import ReadOnlyNode, function
from mcc.documents.reading import BlueprintError, BlueprintProblem
from mcc.documents.state import UnknownNode

__all__ = [
    "Author",
    "Blueprint",
    "BlueprintError",
    "BlueprintProblem",
    "Change",
    "DispatchRefused",
    "Document",
    "ReadOnlyNode",
    "Step",
    "UnknownNode",
    "function",
]
