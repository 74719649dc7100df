"""Parsing of agent files into checked `AgentDefinition`s, and of limits written as `key=value`."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.compaction import Compaction
from mcc.contracts.limits import AgentLimits, Limits
from mcc.contracts.order import Rule, Verification
from mcc.contracts.permission import Word
from mcc.contracts.similar import closest_name
from mcc.definitions.foreign import MISSING, tool_of
from mcc.definitions.front_matter import DefinitionError, Location, Parsed, YamlProblem, split, suggestion
from mcc.definitions.rights import TOOL_GROUPS, GroupTable, is_known, known_names
from mcc.permission.declared import CHARACTERS, characters, problems
from mcc.rules.errors import ExpressionError, SchemaError
from mcc.rules.mistakes import mistakes
from mcc.rules.report import REPORT_NAME, SHIPPED, resolved
from mcc.rules.rule import check_declared
from mcc.rules.schema import checked_schema

MOST_PROBLEMS = 50
"""Most problems reported for one file."""

MAX_UNKNOWN_KEYS = 10
"""Most unknown keys that get a warning each; the others are only counted."""

_KEYS: Mapping[str, type[BaseModel]] = {
    "": AgentDefinition,
    "limits": AgentLimits,
    "compaction": Compaction,
    "rules": Rule,
    "verify": Verification,
}
_FILE_KEYS = set(AgentDefinition.model_fields) - {"prompt"}
_AT_THE_END = 1_000_000
_FIRST_LINE = 2
"""The line of the file on which front matter begins."""


def parse_agent(
    text: str, source: str, groups: GroupTable = TOOL_GROUPS, warn: Callable[[DefinitionError], None] | None = None
) -> AgentDefinition:
    """Parse the text of an agent file; `source` labels the file, `groups` has the tools that it may name.

    Raises `DefinitionError` for the first problem, with the others in its `others`. With `warn`, unknown keys are
    passed to it and ignored. Whether the agents in `spawns` exist is not checked here: other agents are not known.
    """
    parts = split(text, source)
    checker = _Checker(source, *_front_matter(parts.front, source))
    if warn is not None:
        checker.leave_out_unknown(warn)
    checker.check_keys()
    checker.check_lists(groups)
    checker.check_result()
    if not parts.prompt:
        checker.wrong("there is no prompt after the front matter; write what the agent is to do")
    # A text in the place of a missing prompt, which is reported already: the other keys are checked in the same pass.
    definition = checker.definition(parts.prompt or "?")
    checker.check_rules(definition, groups)
    return definition


def _front_matter(front: str, source: str) -> tuple[dict[str, Any], Mapping[Location, int]]:
    try:
        parsed = _parsed(front)
    except YamlProblem as problem:
        line = None if problem.line is None else problem.line + _FIRST_LINE - 1
        raise DefinitionError(source, problem.sentence, line) from problem
    if not isinstance(parsed.value, dict):
        what = "empty" if parsed.value is None else _word_for(parsed.value)
        raise DefinitionError(source, f"the front matter must be lines of `key: value`, and is {what}", _FIRST_LINE)
    return parsed.value, parsed.lines


def _parsed(front: str) -> Parsed:
    # Imported late, because programs whose agents are defined in Python need no YAML parser.
    from mcc.definitions.yaml_text import parse

    return parse(front)


def line_of_spawn(text: str, index: int) -> int | None:
    """The line of entry `index` of `spawns` in a valid agent file; None where there is no such entry."""
    line = _parsed(split(text, "").front).lines.get(("spawns", index))
    return None if line is None else line + _FIRST_LINE - 1


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks the front matter of one file and collects its problems."""

    source: str
    values: dict[str, Any]
    lines: Mapping[Location, int]
    problems: list[DefinitionError] = field(default_factory=list)

    def leave_out_unknown(self, warn: Callable[[DefinitionError], None]) -> None:
        """Remove unknown keys of the file and of its limits, with warnings for the first `MAX_UNKNOWN_KEYS` of each."""
        limits = self.values.get("limits")
        levels: list[tuple[tuple[str, ...], dict[str, Any], set[str]]] = [((), self.values, _FILE_KEYS | {"prompt"})]
        if isinstance(limits, dict):
            levels.append((("limits",), limits, set(AgentLimits.model_fields)))
        for location, values, known in levels:
            unknown = [key for key in values if key not in known]
            for key in unknown:
                del values[key]
            for key in unknown[:MAX_UNKNOWN_KEYS]:
                shown = ".".join((*location, key))
                near = suggestion(key, known - {"prompt"})
                warn(self._error(f"{shown!r} is not a key of an agent file and is left out{near}", *location, key))
            if (more := len(unknown) - MAX_UNKNOWN_KEYS) > 0:
                warn(self._error(f"{more:,} more keys do not belong in an agent file and are left out", *location))

    def check_keys(self) -> None:
        for key in self.values:
            if key == "prompt":
                self.wrong("the prompt is the text after the front matter; leave this key out", key)
            elif key not in _FILE_KEYS:
                self.wrong(f"{key!r} is not a key of an agent file{suggestion(key, _FILE_KEYS)}", key)
        if "name" not in self.values:
            self.wrong("the front matter has no name; add a line such as `name: review`")

    def check_lists(self, groups: GroupTable) -> None:
        """Check that lists of names contain texts, and that named tools exist."""
        for key in ("tools", "disallowed_tools", "passes_on", "spawns", "guidelines"):
            names = self.values.get(key, [])
            if names is None:
                self.wrong(f"{key} is empty; write [] for none, or leave the key out", key)
            elif not isinstance(names, list):
                self.wrong(f"{key} must be a list such as [first, second], and is {_word_for(names)}", key)
            else:
                self._check_names(key, names, groups)

    def _check_names(self, key: str, names: list[Any], groups: GroupTable) -> None:
        known = known_names(groups)
        for index, name in enumerate(names):
            if not isinstance(name, str):
                self.wrong(f"{key} lists {name!r}, which is {_word_for(name)}; quote it if it is text", key, index)
            elif (key.endswith("tools") or key == "passes_on") and not is_known(name, groups):
                self.wrong(f"there is no tool or group {name!r}{_meant_tool(name, known, groups)}", key, index)
                of_others = tool_of(name).ours or name.lower() in MISSING
                self.problems[-1].tool = "" if of_others else name

    def check_result(self) -> None:
        result = self.values.get("result")
        if isinstance(result, str) and result not in SHIPPED:
            self.wrong(f"result {result!r} is not shipped{suggestion(result, SHIPPED)}", "result")
            return
        if result is not None and not isinstance(result, str | dict):
            self.wrong(f"result must be a JSON Schema or a shipped name, and is {_word_for(result)}", "result")
            return
        try:
            schema = resolved(result)
            if schema is not None:
                checked_schema(schema)
        except SchemaError as error:
            self.wrong(f"result: {error}", "result", *_steps(error.place), cause=error)

    def check_rules(self, definition: AgentDefinition, groups: GroupTable) -> None:
        """Check rules and permission. Raises `DefinitionError` for all problems so far."""
        # Without a `result` in its file, an agent returns the shipped report.
        tools = {tool for named in groups.values() for tool in named}
        for index, rule in enumerate(definition.rules):
            try:
                check_declared(rule, REPORT_NAME if definition.result is None else definition.result, tools)
            except ExpressionError as error:
                self.wrong(f"rules[{index}].cel: {error}", "rules", index, "cel", cause=error)
        self._check_permission(definition, tools)
        self._refuse()

    def _check_permission(self, definition: AgentDefinition, tools: Collection[str]) -> None:
        if characters(definition.permission) > CHARACTERS:
            self.wrong(f"permission has more than {CHARACTERS:,} characters of CEL; shorten it", "permission")
            return
        for problem in problems(definition.permission, tools):
            self.wrong(f"permission.{problem.where}: {problem.sentence}", "permission", *problem.place)

    def definition(self, prompt: str) -> AgentDefinition:
        """The definition. Raises `DefinitionError` for the first of all problems so far, with the others."""
        lines = {problem.line for problem in self.problems}
        try:
            definition = AgentDefinition.model_validate({**self.values, "prompt": prompt}, strict=True)
        except ValidationError as error:
            for mistake in error.errors(include_url=False)[:MOST_PROBLEMS]:
                problem = self._error(_sentence(mistake), *mistake["loc"])
                # One mistake breaks several checks; a line that was complained about in plain words gets no second
                # complaint.
                if problem.line not in lines:
                    problem.__cause__ = error
                    self.problems.append(problem)
                    lines.add(problem.line)
            self._refuse()
            raise self._error("the front matter cannot be used") from error
        self._refuse()
        return definition

    def _refuse(self) -> None:
        if self.problems:
            first, *others = sorted(self.problems[:MOST_PROBLEMS], key=lambda one: one.line or _AT_THE_END)
            first.others = tuple(others)
            raise first

    def wrong(self, sentence: str, *location: str | int, cause: Exception | None = None) -> None:
        problem = self._error(sentence, *location)
        problem.__cause__ = cause
        self.problems.append(problem)

    def _error(self, sentence: str, *location: str | int) -> DefinitionError:
        # The nearest part of the file that has a line: pydantic names places, such as members of a union, that no file
        # has.
        while location and location not in self.lines:
            location = location[:-1]
        line = self.lines.get(location) if location else None
        return DefinitionError(self.source, sentence, None if line is None else line + _FIRST_LINE - 1)


NO_OWN_GROUPS = "there are no groups of one's own, so list an own tool by its name"


def _meant_tool(name: str, known: Collection[str], groups: GroupTable) -> str:
    """A hint for an unknown tool: the equivalent of another system's tool of this name, else the nearest name."""
    theirs = tool_of(name)
    if theirs.ours and name not in theirs.ours and {*known} >= {*theirs.ours}:
        return f"; here that is {', '.join(theirs.ours)}"
    if name.lower() in MISSING:
        return f"; {theirs.why}"
    hint = suggestion(name, known, groups)
    return hint if closest_name(name, sorted(known)) else f"{hint}; {NO_OWN_GROUPS}"


def _sentence(error: ErrorDetails) -> str:
    """A pydantic error as a sentence with the key and, if there is one, the nearest valid name."""
    location = [str(part) for part in error["loc"]]
    where, value = ".".join(location), error.get("input")
    match error["type"]:
        case "extra_forbidden":
            model = _KEYS.get(location[0] if len(location) > 1 else "", AgentDefinition)
            return f"{where!r} is not a key of an agent file{suggestion(location[-1], model.model_fields)}"
        case "literal_error":
            allowed = str(error["ctx"]["expected"])
            near = suggestion(str(value), [word.strip(" '") for word in allowed.replace(" or ", ", ").split(",")])
            return f"{where} must be {allowed}, and is {value!r}{near if 'did you mean' in near else ''}"
        case "permission" if isinstance(value, str):
            near = suggestion(value, get_args(Word))
            return f"{where} must be allow, ask or deny, or a list of rules, and is {_shown(value)}{near}"
        case "string_pattern_mismatch" if where == "name":
            return f"name {value!r} is not usable: 1 to 64 letters, digits and _ . : -, a letter or digit first"
        case "missing":
            return f"{where} is missing"
        case "string_type":
            return f"{where} must be text, and is {_word_for(value)}; quote it if it is text"
    message = error["msg"].replace("Input should be", "must be").replace("String should", "must")
    message = message.replace("Value should", "must").replace(" after validation", "")
    return f"{where} {message}; found {_shown(value)}"


def _steps(location: str) -> list[str | int]:
    """The location written as `items.anyOf[0].type`, split into steps."""
    return [
        int(step) if step.isdecimal() else step
        for step in location.replace("[", ".").replace("]", ".").split(".")
        if step
    ]


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


def limits_of(pairs: Iterable[str]) -> Limits:
    """The limits from pairs such as "rounds=10". Raises ValueError with a sentence."""
    values: dict[str, str] = {}
    for pair in pairs:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value:
            raise ValueError(f"--limit takes key=value, for example rounds=10; {pair!r} is not that")
        if key not in Limits.model_fields:
            raise ValueError(f"there is no limit {key!r}{suggestion(key, Limits.model_fields)}")
        values[key] = value
    try:
        return Limits.model_validate_strings(values)
    except ValidationError as error:
        raise ValueError(f"limits.{mistakes(error.errors())[0].sentence}") from error
