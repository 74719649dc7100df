"""The tool `tool_search`, by which models find deferred tools, and its ranking."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from drone.agent.ports.identity_cache import IdentityCache
from drone.agent.turns.toolset import Output, Preview, StartedCall, ToolSet, preview_of
from drone.tools.frame.tool import failure
from mcc.transcript.messages import ToolSpec

TOOL_SEARCH = "tool_search"
MOST_FOUND = 8
_MOST_QUERY = 1_000
_SHOWN = 300
_K1, _B = 1.2, 0.75
"""BM25's usual constants: the weight of repeated words, and the penalty for long descriptions."""

_NAME_WEIGHT = 3
"""How often the words of a tool's name count."""

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
    """A tool set that also has `tool_search` while some of its tools are deferred."""

    def __init__(self, toolset: ToolSet) -> None:
        self._toolset = toolset
        self._with_search = IdentityCache(_with_search, most=1)

    def specs(self) -> Sequence[ToolSpec]:
        return self._with_search(self._toolset.specs())

    async def call(self, call: StartedCall) -> Output:
        if call.name != TOOL_SEARCH:
            return await self._toolset.call(call)
        query = call.arguments.get("query")
        if not isinstance(query, str) or not words(query):
            return failure(f'{TOOL_SEARCH} needs {{"query": "…"}}: a few words about what the tool should do.')
        deferred = [spec for spec in self._toolset.specs() if spec.deferred]
        matches = ranked(query, deferred)[:MOST_FOUND]
        if not matches:
            return failure(f"None of {len(deferred)} tools has anything to do with that. Use other words.")
        lines = (f"{spec.name}: {_first_paragraph(spec.description)}" for spec in matches)
        text = "\n".join((*lines, "They are among your tools from your next reply on."))
        return Output(text, found=tuple(spec.name for spec in matches))

    async def preview(self, call: StartedCall) -> Preview | Output | None:
        return await preview_of(self._toolset, call)


def _with_search(specs: Sequence[ToolSpec]) -> Sequence[ToolSpec]:
    return (*specs, SEARCH) if any(spec.deferred for spec in specs) else specs


def ranked(query: str, specs: Iterable[ToolSpec]) -> list[ToolSpec]:
    """The tools that share a word with the query, the best first (Okapi BM25).

    The words of a tool are those of its name, its description and its parameters' names.
    """
    counts = [(spec, _word_counts(spec)) for spec in specs]
    query_words = set(words(query))
    wanted = {word for word in query_words if len(word) > 1} or query_words
    if not counts or not wanted:
        return []
    mean = sum(counted.total() for _, counted in counts) / len(counts) or 1.0
    holding = Counter(word for _, counted in counts for word in wanted if counted[word])
    weights = {word: math.log(1 + (len(counts) - many + 0.5) / (many + 0.5)) for word, many in holding.items()}
    scored = [(_score(counted, weights, mean), spec) for spec, counted in counts]
    return [spec for score, spec in sorted(scored, key=lambda pair: (-pair[0], pair[1].name)) if score > 0]


def _score(counted: Counter[str], weights: Mapping[str, float], mean: float) -> float:
    damping = _K1 * (1 - _B + _B * counted.total() / mean)
    return sum(weight * counted[word] * (_K1 + 1) / (counted[word] + damping) for word, weight in weights.items())


def _word_counts(spec: ToolSpec) -> Counter[str]:
    counted = Counter(words(spec.description))
    properties = spec.parameters.get("properties")
    for text in (spec.name,) * _NAME_WEIGHT + (tuple(map(str, properties)) if isinstance(properties, Mapping) else ()):
        counted.update(words(text))
    return counted


def words(text: str) -> list[str]:
    """The words of a text in lower case: runs of letters and digits; `createIssue` and `create_issue` are two each."""
    words_found: list[str] = []
    word = ""
    for char in text[: _MOST_QUERY * 4]:
        if char.isalnum():
            if char.isupper() and word and word[-1].islower():
                words_found.append(word.lower())
                word = ""
            word += char
        elif word:
            words_found.append(word.lower())
            word = ""
    return [*words_found, word.lower()] if word else words_found


def _first_paragraph(description: str) -> str:
    line = " ".join(description.partition("\n\n")[0].split())
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"
