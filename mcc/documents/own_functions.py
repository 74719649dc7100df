"""The operator's rule functions, loaded at start-up from modules named in mcc.toml and from installed packages.

What cannot be loaded is reported and left out; a rule that names it gets no verdict and never passes.
"""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType, ModuleType

from mcc.configuration.own_code import own_code
from mcc.documents.functions import Functions, RuleFunction, functions_in

ENTRY_POINTS = "mcc.functions"
"""The group of entry points under which an installed package names a module, a function or a list of functions."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnFunctions:
    """`functions` by the names that blueprints use; `problems` are sentences about what was left out."""

    functions: Functions = field(default_factory=lambda: MappingProxyType({}))
    problems: tuple[str, ...] = ()


def own_functions(modules: Iterable[str], directory: Path | None) -> OwnFunctions:
    """Load the functions of installed packages, then of `modules`: files in `directory` (that of the operator's
    configuration), else importable names. The first of two functions with one name wins. Problems are logged too."""
    functions: dict[str, RuleFunction] = {}
    problems: list[str] = []
    for code in own_code(modules, directory, ENTRY_POINTS):
        try:
            functions_here = functions_in(_modules(code.load()))
        except (Exception, SystemExit) as error:
            problems.append(f"{code.name} ({code.origin}) cannot be loaded: {type(error).__name__}: {error}")
            continue
        if not functions_here:
            problems.append(f'{code.name} ({code.origin}) holds no function: mark one with @function("name")')
        for name, function in functions_here.items():
            if functions.setdefault(name, function) is not function:
                problems.append(f"{code.name} ({code.origin}): another function is called {name!r}; rename one of them")
    for problem in problems:
        log.warning("rules of documents: %s", problem)
    return OwnFunctions(MappingProxyType(functions), tuple(problems))


def _modules(found: object) -> Iterator[ModuleType]:
    """The loaded object as modules: an entry point may name a module, a function or a list of functions."""
    if isinstance(found, ModuleType):
        yield found
        return
    holder = ModuleType("functions")
    several = found if isinstance(found, list | tuple) else (found,)
    vars(holder).update({str(place): module for place, module in enumerate(several)})
    yield holder
