"""OpenRouter: one key for many providers; reasoning details go back as they came, put together."""

from collections.abc import Iterable, Iterator, Mapping

from drone.models.dialects.differences import LEVELS, Differences, Levels, for_all

_WORDS = ("none", "minimal", "low", "medium", "high", "xhigh", "xhigh")
_LEVELS: Levels = {level: {"reasoning": {"effort": word}} for level, word in zip(LEVELS, _WORDS, strict=True)}


def _caches(model: str) -> bool:
    """Claude caches nothing without marks; the others need none."""
    return "claude" in model


OPENROUTER = Differences(
    name="openrouter",
    levels=for_all(_LEVELS),
    always={"usage": {"include": True}},
    thinking_back="",
    caches=_caches,
)


_TEXTS = ("text", "summary")
_SAME = ("type", "index", "format")


class ReasoningDetails:
    """Entries of one reply. Pieces of one text are one entry; what is encrypted stays as it is."""

    def __init__(self) -> None:
        self._entries: list[dict[str, object]] = []
        self._pieces: list[list[str]] = []

    def add(self, told: Iterable[object]) -> Iterator[str]:
        """Take these entries in; their readable texts."""
        for entry in told:
            if isinstance(entry, Mapping):
                yield self._take(entry)

    @property
    def extra(self) -> Mapping[str, object] | None:
        """The field of the message in which they go back."""
        if not self._entries:
            return None
        entries = [
            {**entry, **({_text_field(entry): "".join(pieces)} if pieces else {})}
            for entry, pieces in zip(self._entries, self._pieces, strict=True)
        ]
        return {"reasoning_details": entries}

    def _take(self, entry: Mapping[str, object]) -> str:
        field = _text_field(entry)
        text = entry.get(field)
        said = text if isinstance(text, str) else ""
        last = self._entries[-1] if self._entries else None
        if last is None or not _continues(last, entry):
            self._entries.append(dict(entry))
            self._pieces.append([said] if said else [])
            return said
        if said:
            self._pieces[-1].append(said)
        last.update({key: value for key, value in entry.items() if value is not None and key not in _TEXTS})
        return said


def _text_field(entry: Mapping[str, object]) -> str:
    return next((name for name in _TEXTS if name in entry), "")


def _continues(last: Mapping[str, object], entry: Mapping[str, object]) -> bool:
    """Texts of one place are one. Their signature may come alone, in an entry without text, and ends them."""
    fields = {_text_field(last), _text_field(entry)}
    if last.get("type") != entry.get("type") or last.get("signature") or "data" in last or "data" in entry:
        return False
    if len(fields - {""}) != 1:
        return False
    return all(
        last.get(key) == entry.get(key) for key in _SAME if last.get(key) is not None and entry.get(key) is not None
    )
