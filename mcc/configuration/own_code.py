"""Code of the operator's own: modules that mcc.toml names, and what installed packages offer under an entry point.

Nothing of it is loaded here but by whoever calls `load`; a file that others can write is not run.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from mcc.configuration.places import refuse_others


@dataclass(frozen=True, slots=True)
class OwnCode:
    """`name` is what it is called in the configuration, `origin` says where it comes from. `load` runs it and answers
    a module, a function or a list of functions; it raises whatever the code raises."""

    name: str
    origin: str
    load: Callable[[], object]


def own_code(modules: Iterable[str], directory: Path | None, entry_point: str) -> Iterator[OwnCode]:
    """What installed packages offer in the group `entry_point`, then `modules`: files in `directory`, the operator's
    own configuration, or else names that can be imported."""
    for point in sorted(entry_points(group=entry_point), key=lambda one: one.name):
        package = f"package {point.dist.name} {point.dist.version}" if point.dist else "an installed package"
        yield OwnCode(point.value, package, point.load)
    for name in modules:
        file = None if directory is None else directory / f"{name.removesuffix('.py')}.py"
        if file is not None and file.name in (name, f"{name}.py") and file.is_file():
            yield OwnCode(name, str(file), lambda file=file: _of_file(file, entry_point))  # type: ignore[misc]
        else:
            yield OwnCode(name, "mcc.toml", lambda name=name: import_module(name))  # type: ignore[misc]


def _of_file(file: Path, entry_point: str) -> ModuleType:
    """Under a name of its own, so that it replaces no other module. Raises `NotPrivate` when others can write it."""
    refuse_others(file.stat(), file)
    refuse_others(file.parent.stat(), file.parent)
    name = f"mcc_own_{entry_point.rpartition('.')[2]}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
