"""Every regular expression of the product, read from its source, with texts that are hard for it."""

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_MAKERS = {"Pattern", "compile"}
_WORDS = re.compile(r"[A-Za-z]{2,}")
_SEEDS = (
    *(" ", "\t", "\n", "a", "_", "0", "-", "/", "*", "#", "\\", "'", "<", "(", "[", "\x1b"),
    *("a ", "aA", "a.", "0,", "[!", "a(", "- ", "\n#", "/*", "\x1b[", "\x9d", "a\n"),
)


@dataclass(frozen=True, slots=True)
class Found:
    """A compiled expression and where it stands."""

    where: str
    source: str
    compiled: Any
    anchored: bool = False
    """It is only ever asked what begins at a certain place, as a lexer asks."""

    def work(self, text: Callable[[int], str | bytes]) -> Callable[[int], object]:
        def work(size: int) -> None:
            given = text(size)
            self.compiled.match(given)
            for _ in () if self.anchored else self.compiled.finditer(given):
                pass

        return work

    def texts(self) -> Iterator[Callable[[int], str | bytes]]:
        """Texts of any size: a piece again and again, alone, behind how a match may begin, and before what none has."""
        words = list(dict.fromkeys(_WORDS.findall(self.source)))[:5]
        isbytes = isinstance(getattr(self.compiled, "pattern", ""), bytes)
        for seed in (*_SEEDS, *words, *(f"{word} " for word in words), *(f"<{word}" for word in words[:2])):
            for before in ("", *words[:1], *(f"{word} x" for word in words[:1])):

                def text(size: int, seed: str = seed, before: str = before) -> str | bytes:
                    made = before + (seed * (size // len(seed) + 1))[:size] + "\0"
                    return made.encode() if isbytes else made

                yield text


def modules() -> Iterator[tuple[str, Path]]:
    for package in ("mcc", "drone"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "migrations" not in path.parts and path.name != "__main__.py":
                yield ".".join(path.relative_to(ROOT).with_suffix("").parts), path


def imported(path: Path) -> set[str]:
    """Names of modules that a file imports, wherever in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


def makers() -> Iterator[tuple[str, Path]]:
    """Modules that may make expressions, by the words in their source."""
    for name, path in modules():
        text = path.read_text()
        if any(f"{maker}(" in text for maker in _MAKERS):
            yield name, path


def patterns(name: str, path: Path) -> Iterator[Found]:
    """Those that a module makes of its own text; what is made of other people's text goes to RE2 alone."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not (isinstance(node, ast.Call) and node.args and _maker(node.func) in _MAKERS):
            continue
        expression = compile(ast.Expression(node), str(path), "eval")
        try:
            compiled = eval(expression, dict(vars(importlib.import_module(name))))
        except NameError:
            continue
        if hasattr(compiled, "finditer"):
            source = str(getattr(compiled, "source", "") or compiled.pattern)
            yield Found(f"{path.relative_to(ROOT)}:{node.lineno}", source, compiled)


def terminals() -> Iterator[Found]:
    """The terminals of the parser of rules, which is a library's."""
    from mcc.rules.syntax import _grammar

    for terminal in _grammar().terminals:
        source = terminal.pattern.to_regexp()
        yield Found(f"cel.lark:{terminal.name}", source, re.compile(source, re.MULTILINE), anchored=True)


def _maker(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
