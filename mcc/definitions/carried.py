"""Conversion of one agent of another system: keys, tools, model and prompt, with a report on each."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from mcc.definitions.agents import parse_agent
from mcc.definitions.foreign import DROPPED, INHERIT, KEYS, SHELL, ForeignFormat, Meaning, Tool, model_of, tool_of
from mcc.definitions.foreign_permission import WORDS, ForeignPermission, condition_of, rules_of, strictest
from mcc.definitions.front_matter import DefinitionError, Location, suggestion
from mcc.definitions.rights import TOOL_GROUPS
from mcc.rules.patterns import Pattern

Verdict: TypeAlias = Literal["kept", "changed", "dropped", "error"]
"""What happened to a part of the file; an error prevents the import."""

_NAME = Pattern(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
_UNFIT = Pattern(r"[^A-Za-z0-9_.:-]+")
_IN_PROMPT = Pattern(
    r"\$ARGUMENTS|\{file:|\{env:|!`|^@\S|#tool:|#file:"
    r"|\b(?:Read|Grep|Glob|LS|Bash|Edit|MultiEdit|Write|NotebookEdit|TodoWrite|Task|WebFetch|WebSearch)\b(?:` |`| )tool"
    r"|`(?:Read|Grep|Glob|LS|Bash|Edit|MultiEdit|Write|NotebookEdit|TodoWrite|Task|WebFetch|WebSearch)`"
)
_PROMPT_LINES = 10
_LONGEST_LINE = 2_000
_THINKING = ("off", "minimal", "low", "medium", "high", "xhigh", "max")


@dataclass(frozen=True, slots=True)
class CarriedLine:
    """One line of the report. `number` is the line in the foreign file, from 1; None for a part it lacks."""

    verdict: Verdict
    sentence: str
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """The result for one agent. `text` is the new agent file, empty when `lines` have an error."""

    source: str
    name: str
    lines: tuple[CarriedLine, ...]
    text: str = ""

    @property
    def errors(self) -> tuple[CarriedLine, ...]:
        return tuple(line for line in self.lines if line.verdict == "error")

    def wrong(self, sentence: str) -> "Imported":
        """The same with an error added, which prevents the import."""
        return Imported(self.source, self.name, (*self.lines, CarriedLine("error", sentence)))


@dataclass(slots=True)
class Conversion:
    """The conversion of one agent: the foreign values, and the values and report lines made so far."""

    source: str
    format: ForeignFormat
    aliases: Mapping[str, str]
    values: Mapping[str, Any]
    locations: Mapping[Location, int]
    lines: list[CarriedLine] = field(default_factory=list)
    ours: dict[str, Any] = field(default_factory=dict)
    disallowed: list[str] = field(default_factory=list)
    calls: ForeignPermission = field(default_factory=ForeignPermission)

    def convert(self, name: str, prompt: str, first: int | None) -> Imported:
        """Convert the agent; `first` is the line on which the prompt begins, None where it has none of its own."""
        self.ours["name"] = name
        for key, value in self.values.items():
            meaning = KEYS[self.format].get(key)
            if meaning is None:
                self._report("dropped", f"{key}: {DROPPED.get(key) or 'there is no such key here'}", key)
            elif not (meaning is Meaning.PROMPT and first is not None):
                self._readers()[meaning](key, value)
        self._name()
        if not self.ours.get("description"):
            self._report("changed", "there is no description, by which other agents choose whom to ask: add one")
        if "tools" not in self.ours:
            self._report("changed", "tools: none are named, so it has those of whoever delegates to it")
        if self.disallowed:
            self.ours["disallowed_tools"] = list(dict.fromkeys(self.disallowed))
        if permission := self.calls.permission():
            self.ours["permission"] = permission
        self._prompt(prompt, first)
        return self._checked(prompt)

    def _readers(self) -> Mapping[Meaning, Callable[[str, Any], None]]:
        return {
            Meaning.NAME: self._read_name,
            Meaning.DESCRIPTION: self._description,
            Meaning.TOOLS: self._tools,
            Meaning.WITHOUT: self._disallowed,
            Meaning.PERMISSION: self._permission,
            Meaning.MODE: self._mode,
            Meaning.MODEL: self._model,
            Meaning.TEMPERATURE: self._temperature,
            Meaning.THINKING: self._thinking,
            Meaning.ROUNDS: lambda key, value: self._limit(key, value, "rounds", 1),
            Meaning.MINUTES: lambda key, value: self._limit(key, value, "wall_seconds", 60),
            Meaning.PROMPT: self._unused_prompt,
            Meaning.OFF: self._disabled,
            Meaning.REMOTE: self._remote,
        }

    def _report(self, verdict: Verdict, sentence: str, *location: str | int) -> None:
        while location and location not in self.locations:
            location = location[:-1]
        self.lines.append(CarriedLine(verdict, sentence, self.locations.get(location) if location else None))

    def _read_name(self, key: str, value: Any) -> None:
        if isinstance(value, str) and value.strip():
            self.ours["name"] = value.strip()
        else:
            self._report("error", f"{key} must be text", key)

    def _name(self) -> None:
        written = str(self.ours["name"])
        name = _UNFIT.sub("-", written).strip("-_.:")[:64]
        if not _NAME.fullmatch(name):
            self._report("error", f"name {written!r} leaves nothing that can be a name here", "name")
        elif name != written:
            self._report("changed", f"name: {written!r} is {name!r} here, where names have no spaces", "name")
        else:
            self._report("kept", f"name: {name}", "name")
        self.ours["name"] = name

    def _description(self, key: str, value: Any) -> None:
        if value is not None and not isinstance(value, str):
            self._report("error", f"{key} must be text", key)
        elif value and value.strip():
            self.ours["description"] = value.strip()
            self._report("kept", "description", key)

    def _tools(self, key: str, value: Any) -> None:
        if isinstance(value, dict):
            self._switches(key, value)
            return
        named = list(self._names(key, value))
        if any(name == "*" for _, name in named):
            self._report("kept", f"{key}: all, which are those of whoever delegates to it", key)
            return
        if value is None:
            return
        tools = [tool for index, name in named for tool in self._tool(key, index, name)]
        self.ours["tools"] = list(dict.fromkeys(tools))
        if named and not tools:
            self._report("changed", f"{key}: none of them is left, so it has no tools at all", key)

    def _names(self, key: str, value: Any) -> Iterator[tuple[int, str]]:
        """Names from a list or a text separated by commas; a comma in brackets is part of its name."""
        if isinstance(value, str):
            yield from enumerate(_between_commas(value))
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, str) and item.strip():
                    yield index, item.strip()
                else:
                    self._report("error", f"{key} lists {item!r}, which is not the name of a tool", key, index)
        elif value is not None:
            self._report("error", f"{key} must be a list of names", key)

    def _tool(self, key: str, index: int, name: str) -> tuple[str, ...]:
        tool = tool_of(name)
        if tool.ours == SHELL and condition_of(tool.narrowed):
            self.calls.allowed.append(tool.narrowed)
            self._report(
                "kept", f"{key}: {tool.given} is run_shell, with permission for these commands alone", key, index
            )
            return tool.ours
        self.calls.whole = self.calls.whole or tool.ours == SHELL
        self._report_tool(tool, key, index)
        return tool.ours

    def _report_tool(self, tool: Tool, *location: str | int) -> None:
        names = ", ".join(tool.ours)
        if not tool.ours:
            self._report("dropped", f"{location[0]}: {tool.given}: {tool.why}", *location)
        elif tool.narrowed:
            widened = f"{names}, for all of the workspace: what stands in brackets does not count"
            message = f"{location[0]}: {tool.given} is {widened}"
            self._report("changed", message, *location)
        else:
            same = tool.given in tool.ours
            self._report("kept", f"{location[0]}: {tool.given}{'' if same else f' is {names}'}", *location)

    def _switches(self, key: str, value: Mapping[str, Any]) -> None:
        """Tools that are switched on and off one by one; tools that are not listed are on, unless `*` is off."""
        on: list[str] = []
        for name, switched in value.items():
            tool = tool_of(name)
            if not isinstance(switched, bool):
                self._report("error", f"{key}.{name} must be true or false", key, name)
            elif name == "*":
                self._report(
                    "kept",
                    f"{key}: {name} is {'on' if switched else 'off: only what is switched on counts'}",
                    key,
                    name,
                )
            elif switched:
                on.extend(tool.ours)
                self._report_tool(tool, key, name)
            elif tool.ours:
                self.disallowed.extend(tool.ours)
                self._report("kept", f"{key}: {name} is off: {', '.join(tool.ours)} is not allowed", key, name)
            else:
                self._report("kept", f"{key}: {name} is off, and there is none here", key, name)
        if value.get("*") is False:
            self.ours["tools"] = list(dict.fromkeys(on))

    def _disallowed(self, key: str, value: Any) -> None:
        for index, name in self._names(key, value):
            tool = tool_of(name)
            if tool.ours == SHELL and condition_of(tool.narrowed):
                self.calls.denied.append(tool.narrowed)
                self._report("kept", f"{key}: {name}: permission denies these commands of run_shell", key, index)
                continue
            self.disallowed.extend(tool.ours)
            reason = f"{', '.join(tool.ours)} is not allowed" if tool.ours else "there is none here"
            self._report("kept", f"{key}: {name}: {reason}", key, index)

    def _permission(self, key: str, value: Any) -> None:
        """Words by tool; for the shell also words by pattern, of which the last match counts."""
        # A word alone is permission for everything.
        for name, word in value.items() if isinstance(value, dict) else [("*", value)]:
            tool = tool_of(name)
            ours = TOOL_GROUPS["workspace_write"] if name == "edit" else ("*",) if name == "*" else tool.ours
            if not ours:
                verdict: Verdict = "kept" if word in ("deny", "allow") else "dropped"
                how = f"{name} is {word}" if isinstance(word, str) else name
                self._report(verdict, f"{key}: {how}: {tool.why}", key, name)
            elif isinstance(word, dict) and tool.ours == SHELL:
                self._patterns(key, name, word)
            elif isinstance(word, dict):
                # An import may make an agent stricter than it was, never milder.
                word_for_all = strictest(word.values())
                self.calls.words.update(dict.fromkeys(ours, word_for_all))
                message = f"{key}: {name} is {word_for_all} for everything: patterns of paths do not carry over"
                self._report("changed", message, key, name)
            elif word not in WORDS:
                self._report("error", f"{key}.{name} must be allow, ask or deny", key, name)
            elif word == "deny" and name != "*":
                self.disallowed.extend(ours)
                self._report("kept", f"{key}: {name} is denied: {', '.join(ours)} is not allowed", key, name)
            else:
                self.calls.words.update(dict.fromkeys(ours, word))
                self._report("kept", f"{key}: {name} is {word}", key, name)

    def _patterns(self, key: str, name: str, words: Mapping[str, Any]) -> None:
        # Reversed, because there the last match counts and here the first.
        rules, lost = rules_of([(pattern, str(word)) for pattern, word in reversed([*words.items()]) if word in WORDS])
        if rules:
            self.calls.words["run_shell"] = rules
            self._report("kept", f"{key}: {name}: commands of run_shell have rules of their own", key, name)
        for pattern in lost:
            self._report("changed", f"{key}: {name}: the pattern {pattern!r} cannot be expressed here", key, name)

    def _mode(self, key: str, value: Any) -> None:
        if value == "plan":
            self.calls.words["*"] = [{"when": '!(effects in ["none", "read"])', "then": "deny"}]
            self._report("kept", f"{key}: plan: permission denies whatever changes something", key)
        else:
            self._report("dropped", f"{key}: {value}: what is allowed, asked for and denied is said by permission", key)

    def _model(self, key: str, value: Any) -> None:
        wanted = [name for name in value if isinstance(name, str)] if isinstance(value, list) else [value]
        if not wanted or not isinstance(wanted[0], str):
            self._report("error", f"{key} must be the name of a model", key)
            return
        models = [model_of(name, self.aliases) for name in wanted]
        # Where several models are listed, the first that the operator has; none of them is a reason to refuse the file.
        model = next((usable for usable in models if usable.name != INHERIT), models[0])
        if model.name != INHERIT:
            self.ours["model"] = model.name
        message = f"{key}: {model.why}" if model.why else f"{key}: {model.name}"
        self._report("changed" if model.why else "kept", message, key)

    def _temperature(self, key: str, value: Any) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 2:
            self.ours["temperature"] = value
            self._report("kept", f"{key}: {value}", key)
        else:
            self._report("error", f"{key} must be a number from 0 to 2", key)

    def _thinking(self, key: str, value: Any) -> None:
        word = {"none": "off", "disabled": "off"}.get(str(value).lower(), str(value).lower())
        if word in _THINKING:
            self.ours["thinking"] = word
            self._report("kept", f"{key}: thinking is {word}", key)
        else:
            self._report("dropped", f"{key}: {value!r} is not a level here{suggestion(word, _THINKING)}", key)

    def _limit(self, key: str, value: Any, limit: str, times: int) -> None:
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 100_000:
            amount = value * times
            self.ours.setdefault("limits", {})[limit] = int(amount) if amount == int(amount) else amount
            self._report("kept", f"{key}: limits.{limit} is {amount:g}", key)
        else:
            self._report("error", f"{key} must be a number above 0", key)

    def _unused_prompt(self, key: str, value: Any) -> None:
        self._report("dropped", f"{key}: the prompt is the text after the front matter", key)

    def _disabled(self, key: str, value: Any) -> None:
        if value is not False:
            self._report("error", f"{key}: it is switched off there, so it is not imported", key)

    def _remote(self, key: str, value: Any) -> None:
        if value == "remote":
            self._report("error", f"{key}: it runs elsewhere, and agents here run in a drone", key)
        else:
            self._report("kept", f"{key}: {value}", key)

    def _prompt(self, prompt: str, first: int | None) -> None:
        lines = prompt.split("\n") if prompt else []
        if prompt.startswith("{file:") and len(lines) == 1:
            self._report("error", f"its prompt is in another file, {prompt}: write the text here", "prompt")
            return
        if lines:
            self.lines.append(
                CarriedLine("kept", f"the prompt, {len(lines)} line{'' if len(lines) == 1 else 's'}", first)
            )
        # All lines of a prompt in JSON share one line of the file.
        numbered = first is not None and ("prompt",) not in self.locations
        lines_found = [(index, line) for index, line in enumerate(lines) if _IN_PROMPT.search(line[:_LONGEST_LINE])]
        for index, line in lines_found[:_PROMPT_LINES]:
            shown = line.strip()[:80]
            sentence = f"the prompt mentions something that has another name here, or does not exist: {shown!r}"
            self.lines.append(
                CarriedLine("changed", sentence, first + index if numbered and first is not None else first)
            )
        if (more := len(lines_found) - _PROMPT_LINES) > 0:
            self.lines.append(CarriedLine("changed", f"so do {more} more lines of the prompt"))

    def _checked(self, prompt: str) -> Imported:
        text = _written(self.ours, prompt)
        name = str(self.ours["name"])
        try:
            # By the parser of this system's own files: what is written must be usable as it stands.
            parse_agent(text, self.source)
        except DefinitionError as error:
            if not any(line.verdict == "error" for line in self.lines):
                self._report("error", error.sentence)
        lines = tuple(sorted(self.lines, key=lambda line: line.number or 1_000_000))
        refused = Imported(self.source, name, lines)
        return refused if refused.errors else Imported(self.source, name, lines, text)


def _between_commas(text: str) -> Iterable[str]:
    depth, start = 0, 0
    for index, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            if name := text[start:index].strip():
                yield name
            start = index + 1
    if name := text[start:].strip():
        yield name


_ORDER = (
    "name",
    "description",
    "tools",
    "disallowed_tools",
    "permission",
    "model",
    "temperature",
    "thinking",
    "limits",
)


def _written(values: Mapping[str, Any], prompt: str) -> str:
    """The agent file; values are written as JSON, which is YAML too."""
    front = [f"{key}: {_value(key, values[key])}" for key in _ORDER if key in values]
    return "\n".join(("---", *front, "---", prompt.strip(), ""))


def _value(key: str, value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    if key == "permission":
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {number}" for name, number in value.items()) + "}"
    if key in ("name", "model", "thinking") and isinstance(value, str) and value[:1].isalpha() and ":" not in value:
        return value
    return json.dumps(value, ensure_ascii=False)
