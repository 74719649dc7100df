"""The operator's own code: modules named in mcc.toml, and objects that installed packages offer as entry points."""

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from types import ModuleType

from mcc.configuration.places import refuse_others


@dataclass(frozen=True, slots=True)
class OwnCode:
    """One piece of code, not loaded yet. `name` is its name in the configuration, `origin` says where it comes from.

    `load` runs it and answers a module, a function or a list of functions. It raises whatever the code raises, and
    `NotPrivate` for a file that other users can write.
    """

    name: str
    origin: str
    load: Callable[[], object]


def own_code(modules: Iterable[str], directory: Path | None, entry_point: str) -> Iterator[OwnCode]:
    """The objects that installed packages offer in the group `entry_point`, then `modules`.

    A module is a file in `directory` (where the operator's own mcc.toml lies) if there is one, else an import name.
    """
    for point in sorted(installed(entry_point, tuple(sys.path)), key=lambda one: one.name):
        package = f"package {point.dist.name} {point.dist.version}" if point.dist else "an installed package"
        yield OwnCode(point.value, package, point.load)
    for name in modules:
        file = None if directory is None else directory / f"{name.removesuffix('.py')}.py"
        if file is not None and file.name in (name, f"{name}.py") and file.is_file():
            yield OwnCode(name, str(file), lambda file=file: _of_file(file, entry_point))  # type: ignore[misc]
        else:
            yield OwnCode(name, "mcc.toml", lambda name=name: import_module(name))  # type: ignore[misc]


@lru_cache(maxsize=4)
def installed(group: str, path: tuple[str, ...]) -> EntryPoints:
    """What all packages on this `sys.path` offer, read once: that opens a file of each package."""
    return entry_points(group=group)


def _of_file(file: Path, entry_point: str) -> ModuleType:
    """Import the file under a name that cannot clash with another module's. Raises `NotPrivate`."""
    refuse_others(file.stat(), file)
    refuse_others(file.parent.stat(), file.parent)
    name = f"mcc_own_{entry_point.rpartition('.')[2]}.{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
