"""Tools that a model is not shown until it has looked for them: `tool_search`, and the ranking behind it."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from drone.agent.messages import ToolSpec
from drone.agent.remembered import Remembered
from drone.agent.toolset import Call, Output, Preview, ToolSet, preview_of
from drone.tools.tool import failure

TOOL_SEARCH = "tool_search"
MOST_FOUND = 8
_MOST_QUERY = 1_000
_TOLD = 300
_OFTEN, _LENGTH = 1.2, 0.75
"""The usual constants of BM25: how much repetition counts, and how much a long description is held against it."""

_NAME_COUNTS = 3

SEARCH = ToolSpec(
    TOOL_SEARCH,
    "Finds more tools that you may use. Those that it names are among your tools from your next reply on.",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What the tool should do, in a few words."}},
        "required": ["query"],
        "additionalProperties": False,
    },
    group="mcp",
    idempotent=True,
    effects="none",
)


class Searchable:
    """A tool set with `tool_search` beside it, as long as some of its tools are deferred."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._of = Remembered(_with_search, most=1)

    def specs(self) -> Sequence[ToolSpec]:
        return self._of(self._toolset.specs())

    async def call(self, call: Call) -> Output:
        if call.name != TOOL_SEARCH:
            return await self._toolset.call(call)
        query = call.arguments.get("query")
        if not isinstance(query, str) or not words(query):
            return failure(f'{TOOL_SEARCH} needs {{"query": "…"}}: a few words about what the tool should do.')
        deferred = [spec for spec in self._toolset.specs() if spec.deferred]
        found = ranked(query, deferred)[:MOST_FOUND]
        if not found:
            return failure(f"None of {len(deferred)} tools has anything to do with that. Use other words.")
        lines = (f"{spec.name}: {_first(spec.description)}" for spec in found)
        told = "\n".join((*lines, "They are among your tools from your next reply on."))
        return Output(told, found=tuple(spec.name for spec in found))

    async def preview(self, call: Call) -> Preview | Output | None:
        return await preview_of(self._toolset, call)


def _with_search(there: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return (*there, SEARCH) if any(spec.deferred for spec in there) else there


def ranked(query: str, specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """Those that have to do with the words of the query, the best first (Okapi BM25); its own name finds a tool."""
    there = [(spec, _counted(spec)) for spec in specs]
    asked = set(words(query))
    wanted = {word for word in asked if len(word) > 1} or asked
    if not there or not wanted:
        return []
    mean = sum(counted.total() for _, counted in there) / len(there) or 1.0
    holding = Counter(word for _, counted in there for word in wanted if counted[word])
    weights = {word: math.log(1 + (len(there) - many + 0.5) / (many + 0.5)) for word, many in holding.items()}
    scored = [(_score(counted, weights, mean), spec) for spec, counted in there]
    return [spec for score, spec in sorted(scored, key=lambda pair: (-pair[0], pair[1].name)) if score > 0]


def _score(counted: Counter[str], weights: Mapping[str, float], mean: float) -> float:
    held = _OFTEN * (1 - _LENGTH + _LENGTH * counted.total() / mean)
    return sum(weight * counted[word] * (_OFTEN + 1) / (counted[word] + held) for word, weight in weights.items())


def _counted(spec: ToolSpec) -> Counter[str]:
    counted = Counter(words(spec.description))
    properties = spec.parameters.get("properties")
    for text in (spec.name,) * _NAME_COUNTS + (tuple(map(str, properties)) if isinstance(properties, Mapping) else ()):
        counted.update(words(text))
    return counted


def words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; `createIssue` and `create_issue` are two words each."""
    found: list[str] = []
    word = ""
    for char in text[: _MOST_QUERY * 4]:
        if char.isalnum():
            if char.isupper() and word and word[-1].islower():
                found.append(word.lower())
                word = ""
            word += char
        elif word:
            found.append(word.lower())
            word = ""
    return [*found, word.lower()] if word else found


def _first(description: str) -> str:
    line = " ".join(description.partition("\n\n")[0].split())
    return line if len(line) <= _TOLD else f"{line[:_TOLD]}…"
