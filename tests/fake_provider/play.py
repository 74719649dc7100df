"""What a fake model says: it looks around with the tools it is offered for some rounds, then answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Json: TypeAlias = Mapping[str, Any]
Finish: TypeAlias = Literal["stop", "tool_calls", "length", "refusal", "content_filter", "pause"]

WORDS = ("import", "class", "def", "test", "error", "version", "license", "name")
FILES = ("README.md", "pyproject.toml", "CONTRIBUTING.md", "CHANGELOG.md")


class Refused(Exception):
    """An answer that is no reply: the status, the server's own words, and what it calls such errors."""

    def __init__(self, status: int, words: str, kind: str = "invalid_request_error", code: str = "") -> None:
        super().__init__(words)
        self.status = status
        self.kind = kind
        self.code = code


@dataclass(frozen=True)
class Call:
    name: str
    arguments: Json


@dataclass(frozen=True)
class Say:
    """A reply. `finish` says why it ends."""

    text: str = ""
    calls: Sequence[Call] = ()
    thinking: str = ""
    finish: Finish = "stop"


@dataclass(frozen=True)
class Heard:
    """A request as every form tells it: schemas of tools by name, replies shown, results of tools shown.

    `rounds`: the last round that anything in it tells of, a summary too. `sums_up`: a summary is asked for.
    """

    tools: Mapping[str, Json]
    replies: int
    results: int
    tokens: int = 0
    rounds: int = 0
    sums_up: bool = False


@dataclass
class Memory:
    """What a server knows of what it sent: `signed` by signature; `requests` counts those that were understood."""

    requests: int = 0
    turns: int = 0
    signed: dict[str, Any] = field(default_factory=dict)
    last_body: bytes = b""

    def cached_tokens(self, body: bytes) -> int:
        """The beginning that this request has in common with the one before, in tokens: so many whole pieces of 128."""
        before, self.last_body, end = self.last_body, body, 512
        while end <= len(body) and before[end - 512 : end] == body[end - 512 : end]:
            end += 512
        return (end - 512) // 4


Playing: TypeAlias = Callable[[Heard], Say]


def conversation(rounds: int, lines: int = 10) -> Playing:
    """Looks around for so many rounds, with so many lines of a file at a time, then hands in what is wanted, or
    answers."""

    def say(heard: Heard) -> Say:
        number = max(heard.replies, heard.rounds)
        if heard.sums_up:
            done = f"Round {number}: I look on." if number else "Nothing yet."
            return Say(f"## Goal\nLook around.\n\n## Findings\nNone.\n\n## Done\n{done}\n\n## Open\nThe rest.")
        if number == 0 and len(heard.tools) == 1:
            ((only, schema),) = heard.tools.items()
            return Say("", (Call(only, _filled(schema, "")),))
        calls = _looking(number, heard.tools, lines) if number < rounds else ()
        if calls:
            return Say(f"Round {number + 1}: I look on. ", calls, f"There is more to see after {number} rounds.")
        answer = f"Done after {number} rounds with {heard.results} results of tools: the workspace was looked through."
        if "submit_result" in heard.tools and heard.results <= 2 * rounds:
            handed_in = _filled(heard.tools["submit_result"], answer)
            return Say("", (Call("submit_result", handed_in),), "Everything is there.")
        return Say(answer, (), "Everything is there.")

    return say


def _looking(number: int, tools: Mapping[str, Json], lines: int) -> tuple[Call, ...]:
    """Two calls side by side where both tools are offered; never the same twice."""
    file, first = FILES[number % len(FILES)], 1 + number // len(FILES) * lines
    wanted = (
        ("list_files", {"path": ".", "depth": 1 + number % 3}) if number == 0 else None,
        ("read_file", {"path": file, "start_line": first, "end_line": first + lines - 1}) if number else None,
        ("search_text", {"pattern": f"{WORDS[number % len(WORDS)]}.{{{number}}}", "limit": 5}),
    )
    return tuple(Call(name, arguments) for name, arguments in filter(None, wanted) if name in tools)


def _filled(schema: Json, words: str) -> Any:
    """The smallest value that the schema asks for."""
    if options := schema.get("enum"):
        return options[0]
    match schema.get("type"):
        case "object":
            properties = schema.get("properties", {})
            return {name: _filled(properties.get(name, {}), words) for name in schema.get("required", ())}
        case "array":
            return []
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return words
