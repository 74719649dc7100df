"""No module imports itself by way of others, imports for types and in functions counted."""

from collections.abc import Mapping

from tests.architecture.imports import imported_modules, modules


def in_cycles(imports: Mapping[str, set[str]]) -> set[str]:
    """The modules that can be reached from themselves."""
    return {module for module in imports if module in reached_from(imports[module], imports)}


def reached_from(starts: set[str], imports: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = set(starts)
    while waiting:
        module = waiting.pop()
        reached.add(module)
        waiting |= imports[module] - reached
    return reached


def test_no_module_is_in_a_cycle_of_imports() -> None:
    known = {module for module, _ in modules()}
    found = in_cycles({module: imported_modules(path, known) for module, path in modules()})
    assert not found, "these modules import themselves by way of others"


def test_a_cycle_is_seen_and_what_only_leads_to_it_is_not_in_it() -> None:
    imports = {"reader": {"writer"}, "writer": {"ink"}, "ink": {"writer"}, "paper": set[str]()}
    assert in_cycles(imports) == {"writer", "ink"}
