"""One meaning per name: a public class name stands in one module of both packages, so that nobody has to look at the
imports to know which `Refused` an `except` means."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping

from scripts.sync_client import FILES as TWINS
from tests.architecture.imports import modules

BOTH_PUBLIC = "users import either from a package of its own, and both are what one expects there"
OFFLINE = "only files of the offline model import its own"
DEMANDED = "Celery looks for a class of this name within the class that extends its own"

REPEATED = {
    "Blueprint": (DEMANDED, {"mcc.documents.blueprint", "drone.worker.components"}),
    "Models": (BOTH_PUBLIC, {"mcc.client.asynchronous", "drone.models.registry"}),
    "Bounds": (OFFLINE, {"drone.models.offline.node_task", "drone.sandbox.child"}),
    "Child": (OFFLINE, {"drone.models.offline.node_task", "mcc.local.child"}),
    "Conversation": (OFFLINE, {"drone.models.offline.conversation", "drone.agent.ports.conversations"}),
    "Definition": (OFFLINE, {"drone.models.offline.node_files", "drone.mcp_servers.definitions"}),
    "Facts": (OFFLINE, {"drone.models.offline.facts", "mcc.permission.layers"}),
    "Finding": (OFFLINE, {"drone.models.offline.facts", "mcc.doctor.finding"}),
    "Form": (OFFLINE, {"drone.models.offline.form", "mcc.rules.schema_form"}),
    "Hit": (OFFLINE, {"drone.models.offline.tool_output", "drone.tools.web.search"}),
    "Listing": (OFFLINE, {"drone.models.offline.tool_output", "mcc.contracts.answers"}),
    "Page": (OFFLINE, {"drone.models.offline.tool_output", "mcc.store.rows.values"}),
    "Parts": (OFFLINE, {"drone.models.offline.parts", "mcc.definitions.front_matter"}),
    "Search": (OFFLINE, {"drone.models.offline.survey", "drone.tools.files.search"}),
    "Step": (OFFLINE, {"drone.models.offline.explore", "mcc.documents.change"}),
    "Tree": (OFFLINE, {"drone.models.offline.imports", "drone.agent.state.tree"}),
}
"""By name: why it may be repeated, and where. The blocking client is written out of the awaited one, so its classes
have the same names, and are left out here."""


def repeated(sources: Iterable[tuple[str, str]]) -> Mapping[str, set[str]]:
    """The modules of each public class name that several of these define, by name; `sources`: module and its text.

    Classes within classes and functions count too.
    """
    homes: dict[str, set[str]] = defaultdict(set)
    for module, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].add(module)
    return {name: where for name, where in homes.items() if len(where) > 1}


def test_a_public_class_name_stands_in_one_module() -> None:
    written = {path.resolve() for path in TWINS.values()}
    sources = [(module, path.read_text("utf-8")) for module, path in modules() if path.resolve() not in written]
    assert repeated(sources) == {name: where for name, (_, where) in REPEATED.items()}


def test_a_class_name_is_seen_wherever_it_is_defined_again() -> None:
    once = ("mcc.one", "class Refused(Exception): ...\nclass _Own: ...")
    assert not repeated([once, ("mcc.two", "class StoreRefused(Exception): ...\nclass _Own: ...")])
    assert repeated([once, ("mcc.two", "class Refused: ...")]) == {"Refused": {"mcc.one", "mcc.two"}}
    assert repeated([once, ("mcc.two", "class Outer:\n    class Refused: ...")]) == {"Refused": {"mcc.one", "mcc.two"}}
