"""Agent files of a workspace read where it may take its time: in a process that is killed when it takes too much."""

import json
import time
from collections.abc import Callable
from threading import Event
from typing import Any

from drone.sandbox.aside import Aside, CutOff
from mcc.contracts.agents import AgentDefinition
from mcc.contracts.shape import to_json
from mcc.definitions.errors import DefinitionError
from mcc.definitions.files import AgentFile, workspace_agent
from mcc.definitions.front_matter import split
from mcc.definitions.groups import GroupTable

SECONDS = 20.0
"""How long all files of one workspace may take together."""

_EACH_SECONDS = 1.0
_PLAIN_CHARACTERS = 2_000
"""Front matter that is read at once, of all files together: it takes 30 ms at worst, as long as no rule is in it."""


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
        told = tuple(DefinitionError(file.source, sentence, line) for sentence, line in answer["warnings"])
        return AgentDefinition.model_validate(answer["definition"]), told

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
        told = [(one.sentence, one.line) for one in warnings]
        return {"definition": json.loads(to_json(definition)), "warnings": told}

    return read
