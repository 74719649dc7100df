"""The search for the name that somebody meant."""

from collections.abc import Callable, Iterable
from difflib import SequenceMatcher
from functools import wraps
from heapq import nlargest
from inspect import Parameter, signature
from itertools import islice
from typing import Any, TypeVar, cast

T = TypeVar("T")

_NOT_BY_NAME = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)

_CHARACTERS = 80
"""Only this many characters of a name are compared."""
_NAMES = 1_000
"""Only this many names are considered."""
_COMPARED = 20
"""Only this many names, those that share most letters with the word, are compared in full."""


def close_matches(word: str, names: Iterable[str], n: int = 1, cutoff: float = 0.6) -> list[str]:
    """At most `n` of `names`, the most similar to `word` first, none less similar than `cutoff` (1.0: identical).

    Like `difflib.get_close_matches`, whose time is not bounded.
    """
    matcher = SequenceMatcher(b=word[:_CHARACTERS], autojunk=False)
    promising: list[tuple[float, str]] = []
    for name in islice(names, _NAMES):
        matcher.set_seq1(name[:_CHARACTERS])
        if matcher.real_quick_ratio() >= cutoff and (upper_bound := matcher.quick_ratio()) >= cutoff:
            promising.append((upper_bound, name))
    ranked: list[tuple[float, str]] = []
    for _, name in nlargest(_COMPARED, promising):
        matcher.set_seq1(name[:_CHARACTERS])
        if (ratio := matcher.ratio()) >= cutoff:
            ranked.append((ratio, name))
    return [name for _, name in nlargest(n, ranked)]


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """` (did you mean "…"?)` with the most similar of `names`; "" when none is similar."""
    return f' (did you mean "{close[0]}"?)' if (close := close_matches(word, sorted(names))) else ""


def closest_name(word: str, known: Iterable[str]) -> str | None:
    """The one of `known` most similar to `word`, ignoring case and `-` against `_`; None when none is similar."""
    by_normal_form = {_normalized(name): name for name in sorted(known, reverse=True)}
    found = close_matches(_normalized(word[:100]), by_normal_form)
    return by_normal_form[found[0]] if found else None


def _normalized(name: str) -> str:
    return name.lower().replace("-", "_")


def hints_keywords(target: T) -> T:
    """Decorator of a class or function: a call with a keyword that it does not take raises a TypeError that names the
    parameter probably meant, as Python itself does from 3.13 on."""
    name = next((name for name in ("__init__", "__new__") if name in vars(target)), "")
    function: Callable[..., Any] = getattr(target, name) if isinstance(target, type) else cast(Any, target)

    @wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        try:
            return function(*arguments, **keywords)
        except TypeError as error:
            known = [
                parameter.name
                for parameter in signature(function).parameters.values()
                if parameter.kind not in _NOT_BY_NAME
            ]
            surplus = next((keyword for keyword in keywords if keyword not in known), None)
            if surplus is None:
                raise
            owner = getattr(target, "__name__", "This")
            raise TypeError(f"{owner} takes no {surplus!r}{did_you_mean(surplus, known)}") from error

    if not isinstance(target, type):
        return cast(T, call)
    setattr(target, name, call)
    return target
