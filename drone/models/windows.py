"""The size of a model's context, as the words of providers tell it when a request was too large."""

from mcc.rules.patterns import Pattern

LEAST_TOKENS = 256
MOST_TOKENS = 100_000_000
"""What is smaller or larger is some other figure."""

_TOLD = (
    Pattern(r"maximum (?:context|prompt) length (?:is|of) (\d{3,9})", ignore_case=True),
    Pattern(r"context (?:limit|window|length)[^.;]{0,80}> (\d{3,9})", ignore_case=True),
    Pattern(r"> (\d{3,9}) maximum", ignore_case=True),
    Pattern(r"available context size \((\d{3,9}) tokens", ignore_case=True),
    Pattern(r"(\d{3,9}) maximum context length", ignore_case=True),
    Pattern(r"maximum number of (?:input )?tokens allowed \((\d{3,9})\)", ignore_case=True),
    Pattern(r"context window (?:of|is|limit of) (\d{3,9})", ignore_case=True),
    Pattern(r"context length of (?:only )?(\d{3,9})", ignore_case=True),
    Pattern(r'"n_ctx": ?(\d{3,9})'),
)
_GROUPED = Pattern(r"\b\d{1,3}(?:[,_]\d{3})+\b")


def window_in(words: str) -> int | None:
    """Tokens that the model takes in, as a provider's refusal says; None when it says nothing of the kind."""
    plain = _GROUPED.sub(lambda found: found.group().replace(",", "").replace("_", ""), words)
    for told in _TOLD:
        if found := told.search(plain):
            return believed(int(found[1]))
    return None


def believed(tokens: int | None) -> int | None:
    """A figure that can be the size of a context; None when it can not."""
    return tokens if tokens is not None and LEAST_TOKENS <= tokens <= MOST_TOKENS else None
