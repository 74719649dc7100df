"""Import of agent files of other systems: front matter with a prompt, or the agents of an `opencode.json`."""

import json
from collections.abc import Mapping
from typing import Any

from mcc.definitions.carried import CarriedLine, Conversion, Imported
from mcc.definitions.foreign import ForeignFormat
from mcc.definitions.front_matter import DefinitionError, Location, YamlProblem, split
from mcc.definitions.yaml_text import parse
from mcc.rules.patterns import Pattern

MOST_AGENTS = 200
"""Most agents read from one file."""

_PLAIN_VALUE = Pattern(r"([A-Za-z][\w-]*):[ \t]+([^\s\"'\[{|>&*!#%@`-].*)")
_FIRST_LINE = 2


def imported(
    text: str, source: str, format_: ForeignFormat, name: str, aliases: Mapping[str, str] | None = None
) -> tuple[Imported, ...]:
    """The agents of a foreign file, with all problems. Never raises.

    `name` is the agent's name as derived from the file's name; `aliases` are the operator's models (see `model_of`).
    """
    if source.endswith((".json", ".jsonc")):
        return _of_configuration(text, source, aliases or {})
    try:
        parts = split(text, source)
    except DefinitionError as error:
        return (Imported(source, name, (CarriedLine("error", error.sentence, error.line),)),)
    lines: list[CarriedLine] = []
    values, locations = _front_matter(parts.front, lines)
    if values is None:
        return (Imported(source, name, tuple(lines)),)
    agent = Conversion(
        source, format_, aliases or {}, values, {location: at + _FIRST_LINE - 1 for location, at in locations.items()}
    )
    agent.lines.extend(lines)
    first = text[: text.find(parts.prompt)].count("\n") + 1 if parts.prompt else None
    return (agent.convert(name, parts.prompt, first),)


def _front_matter(front: str, lines: list[CarriedLine]) -> tuple[dict[str, Any] | None, Mapping[Location, int]]:
    """Parse as YAML; if that fails, once more with plain values quoted that more lenient parsers accept."""
    try:
        parsed = parse(front)
    except YamlProblem as problem:
        # Only after strict YAML failed, so that a valid file is never read in another way than its author's system
        # does.
        forgiven, quoted = _quoted(front)
        try:
            parsed = parse(forgiven)
        except YamlProblem:
            lines.append(CarriedLine("error", problem.sentence, None if problem.line is None else problem.line + 1))
            return None, {}
        mended = "is no YAML as it stands, because of a colon or a mark in it; it is quoted now"
        lines.extend(CarriedLine("changed", f"{key} {mended}", number + _FIRST_LINE) for number, key in quoted)
    if not isinstance(parsed.value, dict):
        lines.append(CarriedLine("error", "the front matter must be lines of `key: value`", _FIRST_LINE))
        return None, {}
    return parsed.value, parsed.lines


def _quoted(front: str) -> tuple[str, list[tuple[int, str]]]:
    """The text with each top-level plain value that contains a colon or # quoted; and the lines and keys of these."""
    made, quoted = [], []
    for number, line in enumerate(front.split("\n")):
        match = _PLAIN_VALUE.fullmatch(line) if len(line) <= 32_000 else None
        if match and (": " in match[2] or " #" in match[2] or match[2].endswith(":")):
            made.append(f"{match[1]}: {json.dumps(match[2].rstrip(), ensure_ascii=False)}")
            quoted.append((number, match[1]))
        else:
            made.append(line)
    return "\n".join(made), quoted


def _of_configuration(text: str, source: str, aliases: Mapping[str, str]) -> tuple[Imported, ...]:
    """The agents of `opencode.json`, which may have comments; parsed as YAML, which includes JSON."""
    try:
        parsed = parse(_without_comments(text))
    except YamlProblem as problem:
        return (Imported(source, "", (CarriedLine("error", problem.sentence, problem.line),)),)
    agents = parsed.value.get("agent") if isinstance(parsed.value, dict) else None
    if not isinstance(agents, dict) or not agents:
        return (Imported(source, "", (CarriedLine("error", "there is no agent in it: nothing under the key agent"),)),)
    made = []
    for name, values in list(agents.items())[:MOST_AGENTS]:
        number = parsed.lines.get(("agent", name))
        if not isinstance(values, dict):
            made.append(Imported(source, name, (CarriedLine("error", f"agent {name!r} is no mapping", number),)))
            continue
        above = ("agent", name)
        locations = {
            location[2:]: at for location, at in parsed.lines.items() if location[:2] == above and len(location) > 2
        }
        prompt = values.get("prompt")
        agent = Conversion(source, ForeignFormat.OPENCODE, aliases, values, locations)
        made.append(agent.convert(name, prompt if isinstance(prompt, str) else "", locations.get(("prompt",))))
    return tuple(made)


def _without_comments(text: str) -> str:
    """JSON without // and /* */ comments, with tabs as spaces; line numbers stay the same."""
    made: list[str] = []
    index, size = 0, len(text)
    while index < size:
        sign = text[index]
        if sign == '"':
            end = index + 1
            while end < size and text[end] not in '"\n':
                end += 2 if text[end] == "\\" else 1
            made.append(text[index : end + 1])
            index = end + 1
        elif text.startswith("//", index):
            end = text.find("\n", index)
            index = size if end < 0 else end
        elif text.startswith("/*", index):
            end = text.find("*/", index)
            end = size if end < 0 else end + 2
            made.append("\n" * text.count("\n", index, end))
            index = end
        else:
            made.append(" " if sign == "\t" else sign)
            index += 1
    return "".join(made)
