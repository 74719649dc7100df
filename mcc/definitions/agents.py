"""This room is for reading one agent file: its text in, a checked `AgentDefinition` or a `DefinitionError` out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcc.contracts.agents import AgentDefinition, AgentLimits
from mcc.contracts.order import Rule
from mcc.definitions.errors import DefinitionError, suggestion
from mcc.definitions.front_matter import split
from mcc.definitions.groups import TOOL_GROUPS, GroupTable, known_names
from mcc.definitions.yaml12 import Place, YamlProblem, parse

SHIPPED_RESULTS = ("report", "text")
"""Words that `result` may be; anything else is a JSON Schema."""

_KEYS: Mapping[str, type[BaseModel]] = {"": AgentDefinition, "limits": AgentLimits, "rules": Rule}
_FIRST_LINE = 2
"""Front matter begins on the second line of its file."""


def parse_agent(text: str, source: str, groups: GroupTable = TOOL_GROUPS) -> AgentDefinition:
    """The agent that the file `text` defines; `source` labels the file, `groups` holds the tools that it may name.

    Raises `DefinitionError`. That the agents in `spawns` exist is checked where all of them are known.
    """
    parts = split(text, source)
    reading = _Reading(source, *_front_matter(parts.front, source))
    reading.check_keys()
    reading.check_lists(groups)
    reading.check_result()
    if not parts.prompt:
        raise DefinitionError(source, "there is no prompt after the front matter; write what the agent is to do")
    return reading.definition(parts.prompt)


def _front_matter(front: str, source: str) -> tuple[dict[str, Any], Mapping[Place, int]]:
    try:
        parsed = parse(front)
    except YamlProblem as problem:
        line = None if problem.line is None else problem.line + _FIRST_LINE - 1
        raise DefinitionError(source, problem.sentence, line) from problem
    if not isinstance(parsed.value, dict):
        found = "empty" if parsed.value is None else _word_for(parsed.value)
        raise DefinitionError(source, f"the front matter must be lines of `key: value`, and is {found}", _FIRST_LINE)
    return parsed.value, parsed.lines


@dataclass(frozen=True, slots=True)
class _Reading:
    """The front matter of one file on its way to a definition."""

    source: str
    values: dict[str, Any]
    lines: Mapping[Place, int]

    def check_keys(self) -> None:
        known = set(AgentDefinition.model_fields) - {"prompt"}
        for key in self.values:
            if key == "prompt":
                self._wrong("the prompt is the text after the front matter; leave this key out", key)
            if key not in known:
                self._wrong(f"{key!r} is not a key of an agent file{suggestion(key, known)}", key)
        if "name" not in self.values:
            raise DefinitionError(self.source, "the front matter has no name; add a line such as `name: review`")

    def check_lists(self, groups: GroupTable) -> None:
        """Lists of names are lists of text, and those of tools name what exists."""
        known = known_names(groups)
        for key in ("tools", "disallowed_tools", "spawns", "guidelines"):
            names = self.values.get(key, [])
            if names is None:
                self._wrong(f"{key} is empty; write [] for none, or leave the key out", key)
            if not isinstance(names, list):
                self._wrong(f"{key} must be a list such as [first, second], and is {_word_for(names)}", key)
            for index, name in enumerate(names):
                if not isinstance(name, str):
                    self._wrong(f"{key} lists {name!r}, which is {_word_for(name)}; quote it if it is text", key, index)
                if key.endswith("tools") and name not in known:
                    self._wrong(f"there is no tool or group {name!r}{suggestion(name, known, groups)}", key, index)

    def check_result(self) -> None:
        result = self.values.get("result")
        if isinstance(result, str) and result not in SHIPPED_RESULTS:
            self._wrong(f"result {result!r} is not shipped{suggestion(result, SHIPPED_RESULTS)}", "result")
        if result is not None and not isinstance(result, str | dict):
            self._wrong(f"result must be a JSON Schema or a shipped name, and is {_word_for(result)}", "result")

    def definition(self, prompt: str) -> AgentDefinition:
        try:
            return AgentDefinition.model_validate({**self.values, "prompt": prompt}, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            self._wrong(_sentence(first), *first["loc"], cause=error)

    def _wrong(self, sentence: str, *place: str | int, cause: Exception | None = None) -> NoReturn:
        while place and place not in self.lines:
            place = place[:-1]
        line = self.lines.get(place) if place else None
        raise DefinitionError(self.source, sentence, None if line is None else line + _FIRST_LINE - 1) from cause


def _sentence(error: ErrorDetails) -> str:
    """pydantic's finding as a sentence that names the key and, where one is near, what was probably meant."""
    place = [str(part) for part in error["loc"]]
    where, found = ".".join(place), error.get("input")
    match error["type"]:
        case "extra_forbidden":
            model = _KEYS.get(place[0] if len(place) > 1 else "", AgentDefinition)
            return f"{where!r} is not a key of an agent file{suggestion(place[-1], model.model_fields)}"
        case "literal_error":
            allowed = str(error["ctx"]["expected"])
            near = suggestion(str(found), [word.strip(" '") for word in allowed.replace(" or ", ", ").split(",")])
            return f"{where} must be {allowed}, and is {found!r}{near if 'did you mean' in near else ''}"
        case "string_pattern_mismatch" if where == "name":
            return f"name {found!r} is not usable: 1 to 64 letters, digits and _ . : -, a letter or digit first"
        case "missing":
            return f"{where} is missing"
        case "string_type":
            return f"{where} must be text, and is {_word_for(found)}; quote it if it is text"
    said = error["msg"].replace("Input should be", "must be").replace("String should", "must")
    return f"{where} {said}; found {_shown(found)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def _word_for(value: object) -> str:
    match value:
        case None:
            return "empty"
        case bool():
            return f"the truth value {str(value).lower()}"
        case int() | float():
            return f"the number {_shown(value)}"
        case str():
            return f"the text {_shown(value)}"
        case list():
            return "a list"
    return "a mapping"
