"""This room is for a tool set whose results never carry a known secret to a model, a record or a viewer."""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from urllib.parse import quote, quote_plus

from drone.agent.messages import ToolSpec
from drone.agent.ports import Call, Output, ToolSet

MARK = "[redacted]"
FEWEST_CHARACTERS = 8
"""Shorter secrets are not looked for: they would be found in ordinary words."""


class Redacted:
    """Replaces each secret in what tools say: as it is, in base64 (also inside a longer text), and URL-encoded."""

    def __init__(self, toolset: ToolSet, secrets: Iterable[str]) -> None:
        self._toolset = toolset
        forms = {form for secret in secrets if len(secret) >= FEWEST_CHARACTERS for form in _forms(secret)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if forms else None

    def specs(self) -> Sequence[ToolSpec]:
        return self._toolset.specs()

    async def call(self, call: Call) -> Output:
        output = await self._toolset.call(call)
        if self._pattern is None:
            return output
        content, found = self._pattern.subn(MARK, output.content)
        return replace(output, content=content) if found else output


def _forms(secret: str) -> Iterator[str]:
    yield secret
    yield quote(secret, safe="")
    yield quote_plus(secret)
    raw = secret.encode("utf-8", "surrogatepass")
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            yield _certain_part(encode(b"\0" * before + raw).decode(), before, len(raw))


def _certain_part(encoded: str, before: int, length: int) -> str:
    """The characters of a base64 text that depend on the secret alone, whatever stands around it."""
    first = -(-before * 8 // 6)
    last = (before + length) * 8 // 6
    return encoded[first:last]
