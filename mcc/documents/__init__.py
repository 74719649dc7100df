"""Documents made of blueprints: typed nodes, their rules, commands that change them. Only named files are read."""

from mcc.documents.blueprint import Blueprint
from mcc.documents.change import Author, Change, Refused, Step
from mcc.documents.document import Document
from mcc.documents.functions import NodeView, function
from mcc.documents.reading import BlueprintError, BlueprintProblem
from mcc.documents.state import UnknownNode

__all__ = [
    "Author",
    "Blueprint",
    "BlueprintError",
    "BlueprintProblem",
    "Change",
    "Document",
    "NodeView",
    "Refused",
    "Step",
    "UnknownNode",
    "function",
]
