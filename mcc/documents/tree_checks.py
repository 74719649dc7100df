"""Checks across components: endless or unreachable children, bindings that no parent satisfies, unknown tools."""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache
from typing import Any

from mcc.contracts.blueprints import BlueprintSpec, ChildCount, Component, FieldSpec, ListField, NodeAgent
from mcc.definitions.front_matter import Location, suggestion
from mcc.definitions.rights import TOOL_GROUPS
from mcc.documents.component import CompiledComponent, CompiledField
from mcc.documents.field_checks import Problems, ordered
from mcc.documents.formulas import Binding
from mcc.documents.partial import UnknownField
from mcc.documents.state import MAX_LEVELS, MAX_NODES
from mcc.documents.templates import nearest_field

READING_GROUPS = tuple(name for name in TOOL_GROUPS if name.endswith("_read"))
"""Tool groups that node agents may have: they change nothing outside the document."""


def agent_problems(spec: BlueprintSpec) -> Problems:
    """Tool groups that node agents may not have."""
    agents: list[tuple[Location, NodeAgent]] = [(("agent",), spec.agent)]
    agents += [(("components", name, "agent"), component.agent) for name, component in spec.components.items()]
    for location, agent in agents:
        for index, name in enumerate(agent.tools):
            if name in READING_GROUPS:
                continue
            known = TOOL_GROUPS.keys() | {tool for tools in TOOL_GROUPS.values() for tool in tools}
            why = "is no group that only reads" if name in known else "is no group of tools"
            yield (*location, "tools", index), f"{name!r} {why}{suggestion(name, READING_GROUPS)}"


@dataclass(frozen=True, slots=True)
class _Tree:
    """The graph of components and their child components."""

    components: Mapping[str, Component]

    def children(self, name: str) -> Iterator[tuple[str, ChildCount]]:
        yield from ((one, count) for one, count in self.components[name].children.items() if one in self.components)

    def reached(self, root: str) -> set[str]:
        found, waiting = {root}, [root]
        while waiting:
            below = [one for one, count in self.children(waiting.pop()) if one not in found and count.max != 0]
            found.update(below)
            waiting.extend(below)
        return found

    def endless(self) -> Iterator[tuple[str, str]]:
        """Pairs of parent and child that close a cycle of required children (depth-first search)."""
        seen: dict[str, bool] = {}
        for start in self.components:
            waiting: list[tuple[str, Iterator[tuple[str, ChildCount]]]] = []
            if start not in seen:
                seen[start] = True
                waiting.append((start, self.children(start)))
            while waiting:
                name, rest = waiting[-1]
                child = next((component for component, count in rest if count.min), None)
                if child is None:
                    seen[name] = False
                    waiting.pop()
                elif seen.get(child):
                    yield name, child
                elif child not in seen:
                    seen[child] = True
                    waiting.append((child, self.children(child)))

    def least(self, root: str) -> tuple[int, int]:
        """Levels and number of nodes of the smallest document. Requires a tree without endless children."""
        made = cache(lambda name: self._least(name, made))
        return self._least(root, made)

    def _least(self, name: str, of: Callable[[str], tuple[int, int]]) -> tuple[int, int]:
        below = [(of(child), count.min) for child, count in self.children(name) if count.min]
        levels = max((levels for (levels, _), _ in below), default=0)
        return 1 + levels, 1 + sum(nodes * number for (_, nodes), number in below)


def tree_problems(spec: BlueprintSpec, known: Set[str], whole: bool) -> Problems:
    """Children that are unknown, endless or unreachable. `known` are the names of all declared components."""
    for name, component in spec.components.items():
        for child, count in component.children.items():
            location: Location = ("components", name, "children", child)
            if child not in known:
                yield location, f"There is no component {child!r}{suggestion(child, known)}"
            for (word,), message in ordered(count.min, count.max, "min", "max"):
                yield (*location, word), message
    if not whole:
        return
    if spec.root not in known:
        yield ("root",), f"There is no component {spec.root!r}{suggestion(spec.root, known)}"
        return
    tree = _Tree(spec.components)
    for name in spec.components.keys() - tree.reached(spec.root):
        yield ("components", name), f"Nothing leads here from the root {spec.root}: make it a child, or leave it out"
    endless = list(tree.endless())
    for parent, child in endless:
        message = f"Each {parent} needs a {child}, which leads back to {parent} without an end; let min be 0 somewhere"
        yield ("components", parent, "children", child, "min"), message
    if not endless:
        levels, nodes = tree.least(spec.root)
        if levels > MAX_LEVELS:
            yield ("root",), f"The smallest document has {levels} levels; {MAX_LEVELS} is the most"
        elif nodes > MAX_NODES:
            yield ("root",), f"The smallest document has more than {MAX_NODES:,} nodes, the most that one has"


def binding_problems(spec: BlueprintSpec, components: Mapping[str, CompiledComponent], whole: bool) -> Problems:
    """Bindings to fields that no parent has, or whose type never fits their field."""
    parents: dict[str, list[str]] = {}
    for name, declared in spec.components.items():
        for child in declared.children:
            parents.setdefault(child, []).append(name)
    for component in components.values():
        for field in component.fields.values():
            if isinstance(field.computation, Binding) and not isinstance(field.spec, UnknownField):
                section = "metadata" if field.section == "metadata" else "properties"
                location: Location = ("components", component.name, section, field.key, "bind")
                above = [components[name] for name in parents.get(component.name, ())]
                for message in dict.fromkeys(_of_binding(field, field.computation, component, above, whole)):
                    yield location, message


def _of_binding(
    field: CompiledField, made: Binding, component: CompiledComponent, above: list[CompiledComponent], whole: bool
) -> Iterator[str]:
    asks_parent = any(name.startswith("parent.") for name in made.reads)
    if asks_parent and not above and whole:
        yield f"{component.name} is the root, which has no parent"
    for name in made.reads:
        field_name = name.removeprefix("parent.")
        holders = above if field_name != name else [component]
        having = [holder for holder in holders if field_name == "position" or field_name in holder.fields]
        if not having and holders:
            # One of several possible parents is enough: below the others, the binding gives null.
            who = holders[0].name if len(holders) == 1 else f"None of {', '.join(holder.name for holder in holders)}"
            every = [each for holder in holders for each in holder.fields]
            yield f"{who} has {'no' if len(holders) == 1 else 'a'} {field_name}{nearest_field(field_name, every)}"
        for holder in having if made.template.alone is not None else ():
            yield from _misfit(name, None if field_name == "position" else holder.fields[field_name].spec, field.spec)
    if made.template.alone is None and field.spec.type != "text":
        yield f"This makes a text, and the field is a {field.spec.type}; one pair of braces alone keeps the kind"


_WORDS = ("text", "choice", "date", "reference")


def _misfit(name: str, given: Any, field: FieldSpec) -> Iterator[str]:
    kind = "number" if given is None else given.type
    fits = (
        kind == field.type or (field.type == "text" and kind in _WORDS) or (field.type == "choice" and kind == "text")
    )
    if isinstance(field, ListField) and isinstance(given, ListField):
        fits = not list(_misfit(name, given.items, field.items))
        kind, wanted = f"list of {given.items.type}", f"list of {field.items.type}"
    else:
        wanted = field.type
    if not fits and not isinstance(given, UnknownField):
        yield f"{{{name}}} is a {kind}, and the field is a {wanted}"
