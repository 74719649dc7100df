"""The commands `mcc agents` and `mcc models`: what live drones offer; agent files checked and trusted."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mcc.cli.agents_import import import_agents
from mcc.cli.command import (
    FAILED,
    USAGE,
    AsJson,
    DataDir,
    Url,
    fail,
    plain_errors,
    print_json,
    print_pairs,
    print_table,
    print_wrapped,
    say,
)
from mcc.cli.server import ServiceCall, list_by_default, service_command, tools_of_drones
from mcc.view.offers import print_offers

if TYPE_CHECKING:
    from mcc.cli.agent_files import CheckedFiles
    from mcc.contracts.answers import Offer
    from mcc.definitions.front_matter import DefinitionError
    from mcc.settings import ServiceSettings


app = typer.Typer(help="Agents: what there is, what each may do, what is wrong with files.", rich_markup_mode=None)

_NO_AGENT = "No agent: is there a drone? mcc drones says."


@service_command(app, "list")
def list_agents(call: ServiceCall) -> None:
    """Agents that the live drones know, whose file each is, and what is wrong with the others.

    In a workspace with agent files of its own also those, and what orders there would do without.

    Example: mcc agents list
    """
    here = _workspace_agents(call)
    names = {agent.name for agent in here}
    agents = sorted(
        [*here, *(agent for agent in call.client.agents.list() if agent.name not in names)],
        key=lambda agent: agent.name,
    )
    if call.printed({"items": agents}):
        return
    rows = [
        (agent, (agent.agent.origin if agent.agent is not None else "", ",".join(agent.drones), agent.description))
        for agent in agents
    ]
    print_offers(("NAME", "STATE", "ORIGIN", "DRONES", "DESCRIPTION"), rows, empty=_NO_AGENT)
    from mcc.cli.agent_files import sentences_of

    for sentence in sentences_of(_checked_here(call)):
        say(sentence)


list_by_default(app, list_agents)


def _workspace_agents(call: ServiceCall) -> "list[Offer]":
    """The agents that the files of the current directory's workspace define."""
    from mcc.definitions.scopes import WORKSPACE_DIRECTORY

    if not Path(WORKSPACE_DIRECTORY).is_dir():
        return []
    from mcc.cli.agent_files import offers_here
    from mcc.settings import load

    with plain_errors():
        return offers_here(load(data_dir=call.data_dir).prompts_dir, call.client.tools.list())


def _checked_here(call: ServiceCall) -> "CheckedFiles":
    """What is wrong with the agent files of the current directory, or is not trusted."""
    from mcc.cli.agent_files import CheckedFiles, checked
    from mcc.definitions.scopes import WORKSPACE_DIRECTORY
    from mcc.settings import load

    if not Path(WORKSPACE_DIRECTORY).is_dir():
        return CheckedFiles()
    with plain_errors():
        prompts_dir = load(data_dir=call.data_dir).prompts_dir
    return checked(Path(), prompts_dir, tools=call.client.tools.list() or None)


@service_command(app)
def show(call: ServiceCall, name: Annotated[str, typer.Argument(help="The agent's name.")]) -> None:
    """One agent as drones hire it: tools, spawns, model, limits, result, rules, guidelines and prompt.

    In a workspace that has a file for it, the one of that file.

    Example: mcc agents show review
    """
    here = (offer for offer in _workspace_agents(call) if offer.name == name)
    broken = [problem for problem in _checked_here(call).errors if Path(problem.source).stem == name]
    if broken:
        fail("\n".join(map(str, broken)))
    agent = next(here, None) or call.client.agents.get(name)
    if call.printed(agent):
        return
    print_pairs(_facts(agent))
    if agent.agent is not None:
        from mcc.view.output import clean

        print(f"\n{clean(agent.agent.definition.prompt)}")


@app.command()
def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Agent files, directories of prompts, workspaces; those of here if left out."),
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Read agent files and say what is wrong with each, with its line.

    Where a service runs, its live drones say which own tools and MCP servers there are. Without one, a tool that is not
    shipped is a warning.

    Of a file of Claude Code, OpenCode, Gemini CLI or GitHub Copilot it says what mcc agents import would make of it.

    Example: mcc agents check .mcc/agents/historian.md
    """
    from mcc.cli.agent_files import CheckedFiles, checked
    from mcc.cli.agents_import import aliases_of
    from mcc.settings import load

    with plain_errors():
        settings = load(data_dir=data_dir)
    tools = tools_of_drones(url, data_dir)
    files = CheckedFiles()
    for path in paths or _default_paths(settings.prompts_dir):
        if not path.exists():
            fail(f"{path} does not exist.", USAGE)
        foreign = _checked_foreign(path, settings) if paths else None
        files = files.plus(foreign or checked(path, settings.prompts_dir, tuple(aliases_of(settings)), tools))
    _print_checked(files, as_json)
    if files.errors:
        raise typer.Exit(FAILED)


app.command("import")(import_agents)


@app.command()
def trust(
    directory: Annotated[
        Path | None, typer.Argument(help="The workspace whose .mcc/agents are meant; left out: list what is trusted.")
    ] = None,
    revoke: Annotated[bool, typer.Option("--revoke", "--forget", help="Trust none of its files any longer.")] = False,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Let agent files of a workspace replace the master or another agent of yours, and choose among your models.

    Look at them first. Trust holds for this directory and the content that each file has now: give it again after every
    change. Adding agents needs no trust, and no file gives more rights than your own agents have. It counts for drones
    of this user on this machine.

    Example: mcc agents trust .
    """
    from mcc.cli.agent_files import states, trust_workspace
    from mcc.configuration.trust import TrustProblem, forget_agents
    from mcc.definitions.scopes import WORKSPACE_DIRECTORY
    from mcc.settings import load, trust_store

    store = trust_store()
    try:
        if directory is None:
            listed = states(store)
            if as_json:
                print_json({"items": [{"path": path, "state": state} for path, state in listed]})
            else:
                print_table(("FILE", "STATE"), listed, empty="No agent file is trusted.")
            return
        root = directory.resolve()
        if revoke:
            paths = [str(path) for path in forget_agents(store, root)]
            if as_json:
                print_json({"root": str(root), "revoked": paths})
            else:
                say(f"{_count(paths, 'agent file')} of {root}: trusted no longer.")
            return
        if not (root / WORKSPACE_DIRECTORY).is_dir():
            fail(f"{root} has no {WORKSPACE_DIRECTORY}, so there is nothing to trust.", USAGE)
        with plain_errors():
            prompts_dir = load(data_dir=data_dir).prompts_dir
        rights, refused = trust_workspace(store, root, prompts_dir)
    except TrustProblem as problem:
        fail(str(problem))
    _print_agreed(root, rights, refused, as_json)


def _print_agreed(root: Path, rights: Mapping[str, str], refused: "Sequence[DefinitionError]", as_json: bool) -> None:
    if as_json:
        items = [{"path": path, "may": may} for path, may in rights.items()]
        print_json({"root": str(root), "items": items, "refused": [_finding(error, "error") for error in refused]})
        return
    for path, may in rights.items():
        say(f"{path} is trusted as it is now: it {may}.")
    for error in refused:
        say(f"not trusted: {error}")


def _checked_foreign(path: Path, settings: "ServiceSettings") -> "CheckedFiles | None":
    """What an import of `path` would report; None for files of this system, or of no system that is known."""
    from mcc.cli.agent_files import CheckedFiles
    from mcc.cli.agents_import import aliases_of, read_foreign
    from mcc.definitions.front_matter import DefinitionError

    if path.is_dir() and any((path / ours).is_dir() for ours in (".mcc/agents", "master", "subagent")):
        return None
    agents = [agent for agent, _ in read_foreign(path, aliases_of(settings))]
    if not agents:
        return None
    findings: dict[bool, list[DefinitionError]] = {True: [], False: []}
    for agent in agents:
        for line in agent.lines:
            if line.verdict != "kept":
                finding = DefinitionError(agent.source, f"{line.verdict}: {line.sentence}", line.number)
                findings[line.verdict == "error"].append(finding)
    return CheckedFiles(tuple(agent.source for agent in agents), tuple(findings[True]), tuple(findings[False]))


def _default_paths(prompts_dir: Path | None) -> list[Path]:
    """What is checked without arguments: the prompts in use, the user's own agents, and the current workspace."""
    from mcc.cli.agent_files import shipped_prompts, user_directory
    from mcc.definitions.scopes import WORKSPACE_DIRECTORY

    own = [user_directory()] if os.path.isdir(user_directory()) else []
    workspace = [Path()] if Path(WORKSPACE_DIRECTORY).is_dir() else []
    return [prompts_dir or shipped_prompts(), *own, *workspace]


def _print_checked(found: "CheckedFiles", as_json: bool) -> None:
    findings = [
        *((finding, "error") for finding in found.errors),
        *((finding, "warning") for finding in found.warnings),
    ]
    if as_json:
        items = [_finding(finding, level) for finding, level in findings]
        print_json({"files": found.files, "items": items})
        return
    from mcc.cli.agent_files import sentences_of

    for sentence in sentences_of(found):
        print_wrapped(sentence)
    count = _count(found.files, "agent file")
    summary = f"{_count(found.errors, 'error')}, {_count(found.warnings, 'warning')}" if findings else "all is well"
    print(f"{count}: {summary}")


def _count(found: Sequence[object], what: str) -> str:
    return f"{len(found)} {what}{'' if len(found) == 1 else 's'}"


def _finding(error: "DefinitionError", level: str) -> dict[str, object]:
    return {"file": error.source, "line": error.line, "level": level, "message": error.sentence}


def _facts(one: "Offer") -> list[tuple[str, object]]:
    facts: list[tuple[str, object]] = [
        ("name", one.name),
        ("description", one.description or None),
        ("problem", one.problem),
        ("drones", ", ".join(one.drones) or None),
    ]
    if one.agent is None:
        return facts
    from mcc.view.inbox import permission_in_words

    sheet, definition = one.agent, one.agent.definition
    limits = definition.limits.model_dump(exclude_none=True)
    return [
        *facts,
        ("origin", sheet.origin),
        ("tools asked for", "the parent's" if definition.tools is None else ", ".join(definition.tools) or "none"),
        ("tools", None if sheet.tools is None else ", ".join(sheet.tools) or "none"),
        *(("permission", line) for line in permission_in_words(definition.permission)),
        ("not allowed", ", ".join(definition.disallowed_tools) or None),
        ("passes on", ", ".join(definition.passes_on) or None),
        ("may delegate to", ", ".join(definition.spawns) or "nobody"),
        ("model", definition.model),
        ("temperature", definition.temperature),
        ("thinking", definition.thinking),
        ("limits", ", ".join(f"{key} {value:g}" for key, value in limits.items()) or "the order's"),
        ("result", _result(definition.result)),
        *(("rule", f"{rule.cel}  ({rule.message})" if rule.message else rule.cel) for rule in definition.rules),
        *(("guideline", line) for line in definition.guidelines),
        ("digest", sheet.digest),
    ]


def _result(result: object) -> str:
    if result is None:
        return "report for a parent, text for an order"
    if isinstance(result, str):
        return result
    from mcc.contracts.shape import to_json

    return to_json(result).decode()


def models(
    call: ServiceCall,
    names: Annotated[list[str] | None, typer.Argument(help="With --check: try these, not all of them.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Try each in one small call, which costs a little.")] = False,
) -> None:
    """Models that the live drones can ask, and what is wrong with the others.

    With --check a drone, which alone has the keys, asks each of them once: key, window, tools, streaming, thinking,
    caching, and what to do where it does not work. Exit code 1 when one of them has a problem.

    Example: mcc models --check
    """
    if check:
        _check(call, names or [])
        return
    if names and names != ["list"]:
        fail("names of models go with --check.", USAGE)
    listed = call.client.models.list()
    if call.printed({"items": listed}):
        return
    rows = [(model, (",".join(model.drones), model.description)) for model in listed]
    print_offers(("NAME", "STATE", "DRONES", "DESCRIPTION"), rows, empty="No model: is there a drone? mcc drones says.")


def _check(call: ServiceCall, names: Sequence[str]) -> None:
    say("A drone asks each model once; that may take a minute.")
    checks = call.client.models.check(names)
    if call.as_json:
        print_json({"items": checks})
    else:
        from mcc.view.offers import print_checks

        print_checks(checks)
    if any(answer.problem is not None for answer in checks):
        raise typer.Exit(FAILED)
