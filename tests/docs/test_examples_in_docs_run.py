"""What the documents show works: programs run, agent files and calls are accepted, limits and pages are complete."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from drone.agent.subagents.assignments import assignment_of, assignments_of, message_of
from drone.agent.subagents.offers import offers
from drone.models.scripted import call
from drone.tools.artifacts import ArtifactTools
from mcc.contracts.limits import Limits
from mcc.definitions.agents import parse_agent
from mcc.rules.schema import checked_schema

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
DOCUMENTS = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w+)\n(.*?)^```(?:\n\nIt prints\n\n^```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)")
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \|", re.MULTILINE)
SPAWNABLE = ("explore", "general", "scout", "review", "security_analyst")
PATIENCE_SECONDS = 60


def blocks(language: str) -> list[tuple[str, str, str]]:
    """Page, code, and what the page says that it prints, of each block in this language."""
    return [
        (str(page.relative_to(ROOT)), code, printed)
        for page in DOCUMENTS
        for one, code, printed in FENCE.findall(page.read_text("utf-8"))
        if one == language
    ]


def is_program(code: str) -> bool:
    """Whether it can be run as it stands: it needs nothing around it, and no service."""
    return ("import drone" in code or "from drone" in code) and "asyncio.run(" in code


PYTHON = blocks("python")
PROGRAMS = [block for block in PYTHON if is_program(block[1])]


@pytest.mark.parametrize("page, code, _", PYTHON)
def test_python_can_be_parsed(page: str, code: str, _: str) -> None:
    compile(code, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize("page, code, printed", PROGRAMS)
def test_a_program_runs_and_prints_what_the_page_says(page: str, code: str, printed: str, tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=bare,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said = re.findall(r"print\(.*\)  # (.+)", code)
    assert printed or said, "a program that shows nothing says only that it ended"
    assert not printed or done.stdout == printed
    assert all(words in done.stdout for words in said), done.stdout


def test_there_are_programs_to_run() -> None:
    assert len({page for page, _, _ in PROGRAMS}) >= 2


@pytest.mark.parametrize("page, code, _", [block for block in blocks("yaml") if block[1].startswith("---\n")])
def test_an_agent_file_is_accepted(page: str, code: str, _: str) -> None:
    assert parse_agent(code, page).prompt


@pytest.mark.parametrize("page, code, _", blocks("json"))
def test_a_call_is_accepted_by_its_tool(page: str, code: str, _: str) -> None:
    arguments = json.loads(code)
    shown = (*offers(dict.fromkeys(SPAWNABLE, ""), 5), *ArtifactTools().specs())
    fits = [spec.name for spec in shown if not spec.deferred and not checked_schema(spec.parameters).errors(arguments)]
    assert len(fits) == 1, page
    match fits[0]:
        case "subagent":
            assignment_of(arguments, SPAWNABLE)
        case "subagents_run":
            assignments_of(arguments, 5)
        case "subagent_send":
            message_of(arguments)
    assert call(fits[0], **arguments).arguments == arguments


def test_every_limit_is_explained_with_its_default() -> None:
    told = dict(ROW.findall((HOW_TO / "set-limits.md").read_text("utf-8")))
    assert told == {name: _shown(field.default) for name, field in Limits.model_fields.items()}


def _shown(default: float | str | None) -> str:
    return "none" if default is None else default if isinstance(default, str) else f"{default:,}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    found, open_pages = set[Path](), [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        open_pages += [(page.parent / to).resolve() for to in LINK.findall(page.read_text("utf-8")) if "://" not in to]
    assert set(DOCUMENTS) <= found
