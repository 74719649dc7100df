"""What the documents name exists: files, functions, commands, flags, make targets, variables, links."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from drone.settings import Settings as DroneSettings
from mcc.configuration.settings import PREFIX
from mcc.settings import ServiceSettings as ServiceSettings
from scripts.reference.commands import command as command_of

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WRITTEN = [path for path in DOCUMENTS if path.parent.name not in ("reference", "decisions")]
"""Documents that tell people what to type; the reference is made of the commands themselves."""

FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`([^`\n]+)`")
FILE = re.compile(
    r"(?<![\w./<-])((?:mcc|drone|tests|scripts|examples|benchmarks|prompts|docs|deploy)/[\w./-]+\.\w+)(?::([\w.]+))?"
)
COMMAND = re.compile(r"(?<![\w./=-])(?:\.venv/bin/)?(mcc|drone)((?: +[^\s|;&,#`)]+)+)")
MAKE = re.compile(r"(?<![\w-])make ([a-z][a-z-]*)")
VARIABLE = re.compile(r"\b(?:MCC|DRONE)_[A-Z_]*[A-Z]\b")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def ids(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


def typed(text: str) -> str:
    """What people are told to type: shell blocks with continued lines joined, and inline code."""
    blocks = [body for language, body in FENCE.findall(text) if language in ("sh", "console")]
    return "\n".join([*blocks, *SPAN.findall(FENCE.sub("", text))]).replace("\\\n", " ")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Classes, functions and methods (`Class.method`) that a module defines."""
    found: set[str] = set()

    def look(body: list[ast.stmt], inside: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(inside + node.name)
                look(node.body, f"{inside}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                found.update(inside + target.id for target in targets if isinstance(target, ast.Name))

    look(ast.parse(path.read_text("utf-8")).body, "")
    return frozenset(found)


def outside_fences(text: str) -> str:
    return FENCE.sub("", text)


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_files_and_what_is_in_them_exist(path: Path) -> None:
    for name, inside in FILE.findall(outside_fences(path.read_text("utf-8"))):
        assert (ROOT / name).is_file(), f"{name} does not exist"
        if inside and name.endswith(".py"):
            assert inside.rstrip(".") in names_in(ROOT / name), f"{name} has no {inside}"


@pytest.mark.parametrize("path", WRITTEN, ids=ids)
def test_commands_and_their_flags_exist(path: Path) -> None:
    for program, rest in COMMAND.findall(typed(path.read_text("utf-8"))):
        problem = problem_with(program, rest.split())
        assert problem is None, f"{program}{rest}: {problem}"


def problem_with(program: str, words: list[str]) -> str | None:
    """Why these words are no command line; None when they are one."""
    command = command_of(program)
    for word in words:
        inside = getattr(command, "commands", None)
        if word.startswith("--"):
            flags = {flag for one in command.params for flag in (*one.opts, *one.secondary_opts)} | {"--help"}
            if word.partition("=")[0] not in flags:
                return f"there is no flag {word}"
        elif inside is not None:
            if word not in inside:
                return None if word in ("…", "...") else f"there is no command {word}"
            command = inside[word]
    return None


@pytest.mark.parametrize("path", WRITTEN, ids=ids)
def test_make_targets_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(MAKE.findall(typed(path.read_text("utf-8")))) <= targets


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_variables_are_settings(path: Path) -> None:
    assert set(VARIABLE.findall(path.read_text("utf-8"))) <= variables()


@cache
def variables() -> frozenset[str]:
    """Settings of service and drones, and what docker-compose.yml asks for."""
    of_mcc = {PREFIX + name.upper() for name in (*ServiceSettings.model_fields, *ServiceSettings.other_variables)}
    of_drones = {f"DRONE_{name.upper()}" for name in DroneSettings.model_fields}
    composed = re.findall(r"\$\{([A-Z_]+)", (ROOT / "docker-compose.yml").read_text("utf-8"))
    return frozenset({*of_mcc, *of_drones, *composed})


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_links_lead_somewhere(path: Path) -> None:
    for target in links(path.read_text("utf-8")):
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{target} leads nowhere"
        if anchor:
            assert anchor in anchors(there), f"{target}: there is no such heading"


def links(text: str) -> Iterator[str]:
    return (target for target in LINK.findall(outside_fences(text)) if "://" not in target)


@cache
def anchors(path: Path) -> frozenset[str]:
    headings = HEADING.findall(outside_fences(path.read_text("utf-8")))
    return frozenset(re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings)


@pytest.mark.parametrize(
    ("program", "words", "found"),
    [
        ("mcc", "orders list --status running", None),
        ("mcc", "orders lst", "there is no command lst"),
        ("mcc", "run prompt --detatch", "there is no flag --detatch"),
        ("drone", "work --slots=4", None),
        ("mcc", "up --no-flower", None),
    ],
)
def test_a_command_line_that_does_not_exist_is_found(program: str, words: str, found: str | None) -> None:
    assert problem_with(program, words.split()) == found


def test_methods_and_constants_are_found_by_their_names() -> None:
    there = names_in(ROOT / "drone" / "worker" / "runner.py")
    assert {"Runner.work", "outcome_of", "PAGE"} <= there
    assert "Runner.play" not in there
