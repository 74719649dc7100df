"""The command `mcc agents import`: converts agent files of Claude Code, OpenCode, Gemini CLI and Copilot."""

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.command import FAILED, USAGE, AsJson, DataDir, fail, plain_errors, print_json, print_wrapped, say

if TYPE_CHECKING:
    from mcc.definitions.carried import Imported
    from mcc.definitions.foreign import ForeignFormat
    from mcc.settings import ServiceSettings

MOST_FILES = 200
_MOST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class ImportResult:
    """One converted agent, and the file written for it; None where none was written: the agent's lines say why."""

    agent: "Imported"
    format: "ForeignFormat"
    written: Path | None = None


def import_agents(
    path: Annotated[Path, typer.Argument(help="A file, a directory of such files, or a workspace that has some.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Where to write NAME.md; left out: .mcc/agents of the workspace of PATH."),
    ] = None,
    of: Annotated[
        str | None,
        typer.Option("--from", help="Whose files they are, where the place does not say: claude, opencode, …"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Convert agent files of Claude Code, OpenCode, Gemini CLI or GitHub Copilot, and say what becomes of each line.

    Kept means the same here; changed and dropped say what is different. A file with errors is not written; all its
    errors are listed. mcc agents check PATH says the same and writes nothing.

    Example: mcc agents import .claude/agents
    """
    from mcc.settings import load

    if not path.exists():
        fail(f"{path} does not exist.", USAGE)
    with plain_errors():
        settings = load(data_dir=data_dir)
    agents = read_foreign(path, aliases_of(settings), _format_named(of))
    if not agents:
        fail(f"{path}: {NOT_KNOWN}", USAGE)
    target = to or _target_for(path)
    if to is None and any(part.is_symlink() for part in (target, target.parent)):
        fail(f"{target} leads elsewhere by a symbolic link; name the directory with --to", FAILED)
    results = [_write(agent, format_, target, force) for agent, format_ in _unique(agents)]
    _print(results, as_json)
    if any(result.agent.errors for result in results):
        raise typer.Exit(FAILED)


NOT_KNOWN = (
    "there is no agent file of another system that is known here: .claude/agents/*.md, .opencode/agent/*.md, "
    "opencode.json, .gemini/agents/*.md, .github/agents/*.agent.md, .github/chatmodes/*.chatmode.md; "
    "elsewhere name the system with --from claude, opencode, gemini or copilot"
)


def aliases_of(settings: "ServiceSettings") -> dict[str, str]:
    """The operator's model aliases, each with the provider's name for that model."""
    tables = settings.configuration.table("models")
    return {alias: str(table.get("model", alias)) for alias, table in tables.items() if isinstance(table, Mapping)}


def read_foreign(
    path: Path, aliases: Mapping[str, str], format_: "ForeignFormat | None" = None
) -> list[tuple["Imported", "ForeignFormat"]]:
    """The agents of all files at `path` that belong to another system, each with its format.

    `format_`: the format of all files; None = recognise each by its place, and skip those that are not recognised.
    """
    from mcc.definitions.foreign import format_of
    from mcc.definitions.imported import imported

    agents_read: list[tuple[Imported, ForeignFormat]] = []
    for file in list(_files(path, format_ is not None))[:MOST_FILES]:
        whose = format_ or format_of(file.absolute())
        if whose is not None:
            text, problem = _text(file)
            agents = (problem,) if problem else imported(text, str(file), whose, _stem(file), aliases)
            agents_read.extend((agent, whose) for agent in agents)
    return agents_read


def _format_named(of: str | None) -> "ForeignFormat | None":
    from mcc.definitions.foreign import ForeignFormat
    from mcc.definitions.front_matter import suggestion

    if of is None:
        return None
    if of not in set(ForeignFormat):
        fail(f"--from {of} is not a known system{suggestion(of, list(ForeignFormat))}", USAGE)
    return ForeignFormat(of)


def _files(path: Path, any_markdown: bool) -> Iterator[Path]:
    """`path` itself, or below it the files in the places of known systems; `any_markdown`: all Markdown files there."""
    from mcc.definitions.foreign import OPENCODE_FILES, PLACES, format_of

    if not path.is_dir():
        yield path
        return
    yield from (path / name for name in OPENCODE_FILES if (path / name).is_file())
    places = [path, *(path / place for names in PLACES.values() for place in names)]
    places += [path / name for name in ("agents", "agent", "chatmodes")]
    for place in places:
        if place.is_dir() and (format_of(place.absolute() / "NAME.md") or (any_markdown and place == path)):
            yield from sorted(file for file in place.rglob("*.md") if not file.name.startswith("."))


def _text(file: Path) -> tuple[str, "Imported | None"]:
    """The text of a file; or "" and an agent with the error that says why it cannot be read."""
    from mcc.definitions.carried import CarriedLine, Imported

    try:
        if file.is_symlink():
            raise ValueError("a symbolic link is not followed here; name the file itself")
        with open(
            file, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
        ) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise ValueError("this is no ordinary file")
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError(f"a file of more than {_MOST_BYTES // 1024} KB is not read")
        return content.decode("utf-8-sig"), None
    except UnicodeDecodeError as error:
        sentence = f"byte {error.start} is not UTF-8; save the file as UTF-8"
    except OSError as error:
        sentence = f"the file cannot be read: {error.strerror}"
    except ValueError as error:
        sentence = str(error)
    return "", Imported(str(file), _stem(file), (CarriedLine("error", sentence),))


def _stem(file: Path) -> str:
    from mcc.definitions.foreign import COPILOT_ENDS

    end = next((end for end in COPILOT_ENDS if file.name.endswith(end)), file.suffix)
    return file.name.removesuffix(end)


def _unique(found: Sequence[tuple["Imported", "ForeignFormat"]]) -> Iterator[tuple["Imported", "ForeignFormat"]]:
    """The agents, with an error in each whose name another file used before."""
    first: dict[str, str] = {}
    for one, format_ in found:
        known = first.setdefault(one.name, one.source) if one.text else one.source
        twice = known != one.source
        yield one.wrong(f"{known} has an agent {one.name!r} too; rename one of them") if twice else one, format_


def _target_for(path: Path) -> Path:
    """`.mcc/agents` of the workspace in which the foreign file or directory lies."""
    from mcc.definitions.foreign import OPENCODE_FILES
    from mcc.definitions.scopes import WORKSPACE_DIRECTORY

    full = path.absolute()
    hidden = [above for above in (full, *full.parents) if above.name in (".claude", ".opencode", ".gemini", ".github")]
    root = hidden[0].parent if hidden else full if path.is_dir() else Path.cwd()
    return (full.parent if path.name in OPENCODE_FILES else root) / WORKSPACE_DIRECTORY


def _write(one: "Imported", format_: "ForeignFormat", to: Path, force: bool) -> ImportResult:
    if one.errors:
        return ImportResult(one, format_)
    prompts = (to / "master").is_dir() or (to / "subagent").is_dir()
    file = to / "subagent" / one.name / "system.md" if prompts else to / f"{one.name}.md"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w" if force and not file.is_symlink() else "x", encoding="utf-8") as opened:
            opened.write(one.text)
    except FileExistsError:
        return ImportResult(one.wrong(f"{file} is there; --force writes over it"), format_)
    except OSError as error:
        return ImportResult(one.wrong(f"{file}: {error.strerror}"), format_)
    return ImportResult(one, format_, file)


def _print(results: Sequence[ImportResult], as_json: bool) -> None:
    if as_json:
        print_json({"items": [_as_json(result) for result in results]})
        return
    for result in results:
        print_wrapped(f"{result.agent.source} → {result.written or 'not imported'}")
        for line in result.agent.lines:
            where = "" if line.number is None else f"line {line.number}: "
            print_wrapped(f"  {line.verdict:<7}  {where}{line.sentence}", indent=11)
    written = sum(result.written is not None for result in results)
    say(f"{written} of {len(results)} agents imported." + (" Read them, then: mcc agents check" if written else ""))


def _as_json(one: ImportResult) -> dict[str, object]:
    return {
        "source": one.agent.source,
        "format": one.format.value,
        "agent": one.agent.name,
        "written": None if one.written is None else str(one.written),
        "lines": [{"line": line.number, "verdict": line.verdict, "message": line.sentence} for line in one.agent.lines],
    }
