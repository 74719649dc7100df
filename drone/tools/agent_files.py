"""The agent files of a workspace: found under its path rule, read where they cannot hold up anybody."""

import json
import os
import time
from collections.abc import Callable
from threading import Event
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from drone.sandbox.paths import PathError, PathMissing, Workspace
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.shape import to_json
from mcc.definitions.front_matter import FILE_BYTES, DefinitionError, split
from mcc.definitions.rights import GroupTable
from mcc.definitions.scopes import WORKSPACE_DIRECTORY, AgentFile, within_bounds, workspace_agent

SECONDS = 20.0
"""How long all files of one workspace may take together."""

_EACH_SECONDS = 1.0
_PLAIN_CHARACTERS = 2_000
"""Front matter that is read at once, of all files together: it takes 30 ms at worst, as long as no rule is in it."""

_SUFFIX = ".md"


def agent_files(workspace: Workspace) -> tuple[AgentFile, ...]:
    """The `*.md` of the workspace's `.mcc/agents` by name, as many as are read; one that cannot be says why.

    Blocks for as long as the disk takes.
    """
    try:
        directory = workspace.open_directory(WORKSPACE_DIRECTORY, symlinks=False)
    except PathMissing:
        return ()
    except PathError as error:
        return (AgentFile("", WORKSPACE_DIRECTORY, problem=str(error)),)
    try:
        names = sorted(name for name in os.listdir(directory) if name.endswith(_SUFFIX) and not name.startswith("."))
    finally:
        os.close(directory)
    return within_bounds(names, lambda name: _read(workspace, name))


def _read(workspace: Workspace, name: str) -> AgentFile:
    path = f"{WORKSPACE_DIRECTORY}/{name}"
    agent = name.removesuffix(_SUFFIX)
    try:
        with workspace.open_file(path, symlinks=False) as file:
            return AgentFile(agent, path, file.read(FILE_BYTES + 1))
    except PathError as error:
        return AgentFile(agent, path, problem=str(error))
    except OSError as error:
        return AgentFile(agent, path, problem=f"the file cannot be read: {error.strerror}")


class AgentReader:
    """Reads one file after the other as `workspace_agent` does; one that takes too long is a `DefinitionError`.

    Use by one thread; close it.
    """

    def __init__(self, stop: Event | None = None, *, seconds: float = SECONDS) -> None:
        self._aside = Aside(reading, stop)
        self._seconds = seconds
        self._until: float | None = None
        self._plain_characters = _PLAIN_CHARACTERS

    def __call__(self, file: AgentFile, groups: GroupTable) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
        text = file.text()
        front = split(text, file.source).front
        if len(front) <= self._plain_characters and "cel" not in front and "\\" not in front:
            self._plain_characters -= len(front)
            return workspace_agent(file, groups)
        return self._aside_read(file, text, groups)

    def _aside_read(
        self, file: AgentFile, text: str, groups: GroupTable
    ) -> tuple[AgentDefinition, tuple[DefinitionError, ...]]:
        now = time.monotonic()
        self._until = self._until or now + self._seconds
        if now > self._until:
            raise DefinitionError(file.source, "left out, because reading the files before it took too long")
        tools = {name: list(tools) for name, tools in groups.items()}
        question = {"name": file.name, "source": file.source, "text": text, "groups": tools}
        try:
            answer = self._aside.ask(question, _EACH_SECONDS)
        except CutOff as error:
            raise DefinitionError(file.source, f"left out: {error}; make its front matter simpler") from error
        if "error" in answer:
            raise DefinitionError(file.source, *answer["error"])
        notes = tuple(DefinitionError(file.source, sentence, line) for sentence, line in answer["warnings"])
        return AgentDefinition.model_validate(answer["definition"]), notes

    def close(self) -> None:
        self._aside.close()


def reading() -> Callable[[Any], object]:
    """What the process aside does."""

    def read(question: Any) -> object:
        file = AgentFile(question["name"], question["source"], question["text"].encode())
        try:
            definition, warnings = workspace_agent(file, question["groups"])
        except DefinitionError as error:
            return {"error": [error.sentence, error.line]}
        sentences = [(one.sentence, one.line) for one in warnings]
        return {"definition": json.loads(to_json(definition)), "warnings": sentences}

    return read
