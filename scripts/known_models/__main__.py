"""The command: `python -m scripts.known_models` writes `drone/models/known_models.json` anew, dated."""

import json
import tomllib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from genai_prices import types
from genai_prices.data_snapshot import get_snapshot

from drone.models.prices import as_listed
from mcc.rules.patterns import Pattern

TABLE = Path(__file__).parents[2] / "drone" / "models" / "known_models.json"
FACTS = Path(__file__).with_name("facts.toml")

PROVIDERS = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "gemini",
    "openrouter": "openrouter",
    "mistral": "mistral",
    "groq": "groq",
    "deepseek": "deepseek",
    "x-ai": "xai",
    "together": "together",
}
"""Names in genai-prices to ours."""

OTHERS = ("audio", "-image", "-live", "moderation", "realtime", "transcribe", "-tts", "voice", ":batch")
"""In names of models that no agent speaks with."""

_VARIANT = Pattern("-(chat|codex)")
_VERSION = Pattern(r"^gpt-(\d+)(?:[.-](\d)\b)?")

CACHE_SECONDS = 300
"""How long hosted providers keep the beginning of a request at least; Anthropic's default, and the least that others
state."""
LONG_CACHE_SECONDS = 1_800
"""OpenAI's from gpt-5.6 on."""


def main() -> None:
    now = datetime.now(tz=UTC)
    source = f"genai-prices {version('genai-prices')}"
    rows = [
        apart
        for provider in get_snapshot().providers
        if provider.id in PROVIDERS
        for model in provider.models
        if (row := _row(PROVIDERS[provider.id], model, source, now)) is not None
        for apart in _apart(row)
    ]
    facts = tomllib.loads(FACTS.read_text())["facts"]
    for row in rows:
        for fact in facts:
            if fact["provider"] == row["provider"] and _is_of(row["names"][0], fact["names"]):
                told = {name: value for name, value in fact.items() if name not in ("provider", "names", "source")}
                row |= {**told, "source": f"{source}; {fact['source']}"}
    lines = ",\n".join(json.dumps(row) for row in rows)
    TABLE.write_text(f'{{"written": "{now:%Y-%m-%d}", "models": [\n{lines}\n]}}\n')


def _row(provider: str, model: types.ModelInfo, source: str, now: datetime) -> dict[str, Any] | None:
    """None for what no agent speaks with. A price that changes with the hour is left out."""
    price = as_listed(model.get_prices(now))
    names = list(dict.fromkeys([model.id.lower(), *_names(model.match)]))
    if price is None or any(part in names[0] for part in OTHERS):
        return None
    if provider == "openrouter" and model.context_window is None:
        return None
    window = {"context_tokens": model.context_window} if model.context_window else {}
    by_hour = not isinstance(model.prices, types.ModelPrice) and any(
        isinstance(one.constraint, types.TimeOfDateConstraint) for one in model.prices
    )
    money = {} if by_hour else {"price": price}
    cache = {"cache_seconds": cache_seconds(provider, names[0])}
    return {"provider": provider, "names": names, **window, **money, **cache, "source": source}


def cache_seconds(provider: str, name: str) -> int:
    """How long the provider keeps the beginning of a request to this model."""
    found = _VERSION.search(name) if provider == "openai" else None
    is_new = found is not None and (int(found[1] or 0), int(found[2] or 0)) >= (5, 6)
    return LONG_CACHE_SECONDS if is_new else CACHE_SECONDS


def _apart(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What has its price of another model and thinks otherwise has a row of its own."""
    own = [name for name in row["names"] if row["names"][0] != name and _VARIANT.search(name)]
    if row["provider"] != "openai" or _VARIANT.search(row["names"][0]):
        own = []
    yield {**row, "names": [name for name in row["names"] if name not in own]}
    yield from ({**row, "names": [name]} for name in own)


def _names(clause: object) -> Iterator[str]:
    """Names as the table has them: whole, or with a star at the end. Dates at the end are left to its reader."""
    match clause:
        case types.ClauseOr(or_=inner):
            for one in inner:
                yield from _names(one)
        case types.ClauseAnd(and_=inner):
            yield from _names(inner[0])
        case types.ClauseEquals(equals=name):
            yield name.lower()
        case types.ClauseStartsWith(starts_with=name) | types.ClauseContains(contains=name):
            yield f"{name.lower()}*"
        case types.ClauseEndsWith(ends_with=name):
            yield name.lower()


def _is_of(name: str, patterns: Iterable[str]) -> bool:
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


if __name__ == "__main__":
    main()
