"""This room is for tool names as providers allow them: letters, digits, `_` and `-`, at most 64 of them."""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

from mcc.rules.patterns import Pattern

_LEGAL = Pattern(r"[A-Za-z0-9_-]{1,64}")
_ILLEGAL = Pattern(r"[^A-Za-z0-9_-]+")


@lru_cache(maxsize=4096)
def legal(name: str) -> str:
    """`name`, or a legal one in its place that is as telling and differs for every name."""
    if _LEGAL.fullmatch(name):
        return name
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{_ILLEGAL.sub('_', name)[:55]}_{mark}"


def own_names(names: Iterable[str]) -> dict[str, str]:
    """Ours by the provider's."""
    return {legal(name): name for name in names}
