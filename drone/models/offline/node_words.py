"""Texts and figures for document fields about a topic, within the limits of each field."""

from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from typing import Any

from drone.models.offline.node_task import FieldSpec, NodeTask
from mcc.rules.patterns import Pattern, PatternMatch

_ASPECTS = (
    ("what {t} needs", "What does {t} need?"),
    ("how {t} begins", "How does {t} begin?"),
    ("what comes of {t}", "What comes of {t}?"),
    ("where {t} is found", "Where is {t} found?"),
    ("how {t} is measured", "How is {t} measured?"),
    ("what disturbs {t}", "What disturbs {t}?"),
    ("how {t} changes", "How does {t} change?"),
    ("who depends on {t}", "Who depends on {t}?"),
    ("what {t} looks like up close", "What does {t} look like up close?"),
    ("how people use {t}", "How do people use {t}?"),
    ("what is often misunderstood about {t}", "What is often misunderstood about {t}?"),
    ("what happens without {t}", "What happens without {t}?"),
    ("how long {t} takes", "How long does {t} take?"),
    ("what {t} is made of", "What is {t} made of?"),
)
_VARIANTS = (
    *("for beginners", "for every day", "for travel", "for small rooms", "for outdoors", "for two people"),
    *("that can be repaired", "in a set of three", "to hang up", "with a spare part", "for the workshop", "to lend"),
)
_TITLES = ("{t} at a glance", "{t}, step by step", "all about {t}", "a closer look at {t}", "{t} from the beginning")
_VARIANT_BEGINS = Pattern(r" (?:for|that|in a|to|with) ")
_QUESTION_WORDS = ("what ", "how ", "where ", "who ", "why ", "when ")
_VERBS = (
    "Explain",
    "Describe",
    "Show",
    "Predict",
    "Report",
    "Test",
    "Question",
    "Tell others",
    "Find out",
    "Write down",
)
_NOUNS = (
    "example",
    "cause",
    "effect",
    "part",
    "change",
    "source",
    "measure",
    "limit",
    "pattern",
    "use",
    "case",
    "step",
)
_SENTENCES = (
    "The first example of {t} is one that everybody can see.",
    "Two examples of {t} are compared, and what differs is written down.",
    "Most people ask first {a}.",
    "A drawing shows {a}.",
    "Whoever can say {a} has understood {t}.",
    "One measurement says more about {t} than ten opinions, so it is made first.",
    "At the end stands one sentence that says {a}, in plain words.",
    "What is known of {t} is told apart from what is only guessed.",
    "Nothing about {t} is taken for granted before it has been tried.",
    "The first look is for {a}, the second for what follows from it.",
    "People who meet {t} every day are asked {a}, and others check it.",
    "A short list says {a}, and each entry is tried.",
)
_FIRST_DAY = date(2026, 9, 1)
_FEW, _SHORT, _TERM = 3, 25, 10
_LONG = 130
"""Characters: default length of a text without limits; texts with a lower limit become phrases."""


class Words:
    """Makes values for the fields of one node; each `attempt` makes a different value."""

    def __init__(self, task: NodeTask, numbers: Mapping[str, Any]) -> None:
        self._task = task
        self._numbers_of = {name: one for name, one in numbers.items() if type(one) in (int, float)}

    def value(self, field: FieldSpec, attempt: int = 0) -> Any:
        """The value for a field; None if there is none."""
        match field.kind:
            case "number" | "integer":
                return self._number(field, attempt)
            case "boolean":
                return attempt % 2 == 1
            case "choice":
                return self._choice(field, attempt)
            case "date":
                return self._date(field, attempt)
            case "reference":
                return self._reference(field, attempt)
            case "list":
                return self._list(field, attempt)
        return self.text(field, attempt)

    def text(self, field: FieldSpec, attempt: int = 0, number: int = 0) -> str:
        """`number` makes the texts of a list differ."""
        if field.pattern:
            return example_of(field.pattern, self._task.seed(field.name, attempt, number))
        least, most = int(field.bounds.least or 0), int(field.bounds.most or 0)
        if "question mark" in field.description and "full stop" not in field.description:
            return fitted(self._aspect(attempt, number)[1], most)
        if least > _SHORT or (not most and not field.is_named("title", "name", "label")) or most > _LONG:
            return self.prose(field, attempt, number)
        return fitted(self.phrase(field, attempt, number), most)

    def phrase(self, field: FieldSpec, attempt: int = 0, number: int = 0) -> str:
        """A title: for the whole topic, one aspect of it, or one variant."""
        place = self._task.seed(field.name, attempt) + number
        if field.is_named("name"):
            made = f"{_VARIANT_BEGINS.split(self._subject, 1)[0]} {_VARIANTS[place % len(_VARIANTS)]}"
        elif field.is_named("title") and not self._task.topic.lower().startswith(_QUESTION_WORDS):
            made = _TITLES[place % len(_TITLES)].format(t=self._subject)
        else:
            made = self._aspect(attempt, number)[0]
        return made[:1].upper() + made[1:]

    def prose(self, field: FieldSpec, attempt: int = 0, number: int = 0, first: str = "") -> str:
        """As many sentences as the field needs; after `first` only as many as are required."""
        least = int(field.bounds.least or 0)
        most = int(field.bounds.most or 0) or 10_000
        text = first if len(first) <= most else fitted(first, most)
        enough = max(least, 0 if first else min(_LONG, most // 2))
        for sentence in self._sentences(field, attempt, number):
            if len(text) >= enough:
                break
            longer = f"{text} {sentence}".strip()
            if len(longer) > most:
                return text if len(text) >= least else fitted(longer, most)
            text = longer
        return text

    @property
    def _subject(self) -> str:
        """What sentences are about: the node's own topic, or the document's if that is a question."""
        own = self._task.topic
        return self._task.document_topic if own.lower().startswith(_QUESTION_WORDS) else own.partition(":")[0]

    def _aspect(self, attempt: int, number: int) -> tuple[str, str]:
        """One aspect of the subject, as a clause and as a question."""
        clause, question = _ASPECTS[(self._task.seed("aspect", attempt) + number) % len(_ASPECTS)]
        own = self._task.topic
        if own.lower().startswith(_QUESTION_WORDS) and self._task.is_about_itself:
            # The node itself is about one aspect.
            same = next(
                (asked for template, asked in _ASPECTS if template.format(t=self._subject) == _uncapitalized(own)),
                question,
            )
            clause, question = (_uncapitalized(own), same) if number == 0 else (clause, question)
        return clause.format(t=self._subject), question.format(t=self._subject)

    def _sentences(self, field: FieldSpec, attempt: int, number: int) -> Iterator[str]:
        start = self._task.seed(field.name, attempt, number)
        for place in range(len(_SENTENCES) * 8):
            sentence = _SENTENCES[(start + place * 5) % len(_SENTENCES)]
            yield sentence.format(t=self._subject, a=self._aspect(attempt, number + place)[0])

    def _number(self, field: FieldSpec, attempt: int) -> int | float:
        """An integer, and a multiple of five if there is room; below related values that are already given."""
        words = {one for one in field.name.split("_") if len(one) > 3}
        same = [one for name, one in self._numbers_of.items() if words & set(name.partition(".")[2].split("_"))]
        least, most = field.bounds.least, field.bounds.most
        low = least if least is not None else 0.0
        high = min([*([most] if most is not None else []), *(one for one in same if one >= low)], default=None)
        known = sorted(one for one in self._numbers_of.values() if one >= low and (most is None or one <= most))
        if high is None or high > low + 10_000:
            # No bound nearby: choose between given values, else up to a hundred above the lower bound.
            low, high = (known[0], known[-1]) if len(known) > 1 and attempt % 2 == 0 else (max(low, 1.0), low + 100)
        spread = (self._task.seed(field.name, attempt) % 7 + 1) / 8
        found = low + (high - low) * spread
        fives = 5 * round(found / 5)
        found = fives if low <= fives <= high else round(found, 2)
        return int(found) if field.kind == "integer" or float(found).is_integer() else found

    def _choice(self, field: FieldSpec, attempt: int) -> str | None:
        if not field.options:
            return None
        return field.options[(self._task.seed(field.name) + attempt) % len(field.options)]

    def _date(self, field: FieldSpec, attempt: int) -> str:
        after, before = (date.fromisoformat(one) if one else None for one in field.days)
        first = _FIRST_DAY if after is None or after < _FIRST_DAY else after + timedelta(days=1)
        day = first + timedelta(days=self._task.seed(field.name, attempt) % 60)
        if before is None or day < before:
            return day.isoformat()
        return (max(after or date.min, before - timedelta(days=2)) + timedelta(days=1)).isoformat()

    def _reference(self, field: FieldSpec, attempt: int) -> str | None:
        """A neighbouring node. An optional reference is first set only if the number of neighbours is odd."""
        paths = list(self._task.neighbours)
        return paths[attempt % len(paths)] if paths and (field.required or attempt or len(paths) % 2) else None

    def _list(self, field: FieldSpec, attempt: int) -> list[Any] | None:
        item = field.item or FieldSpec(field.name, "text")
        least, most = int(field.bounds.least or 0), int(field.bounds.most or 0)
        count = max(least, min(_FEW, most or _FEW))
        if item.kind != "text":
            found = [self.value(item, attempt + place) for place in range(count * 3)]
            kept = list(dict.fromkeys(one for one in found if one is not None))[:count]
            return kept if len(kept) >= least else None
        lower = "lower case" in field.description
        few = (item.bounds.least or 0) < _TERM
        made = self._keywords(field, attempt) if few else self._instructions(field, item, attempt)
        texts = (one.lower() if lower else one for one in made)
        unlike: dict[str, None] = dict.fromkeys(fitted(one, int(item.bounds.most or 0)) for one in texts)
        return list(unlike)[:count]

    def _keywords(self, field: FieldSpec, attempt: int) -> Iterator[str]:
        start = self._task.seed(field.name, attempt)
        yield self._subject
        for place in range(len(_NOUNS)):
            yield f"{_NOUNS[(start + place * 5) % len(_NOUNS)]} of {self._subject}"

    def _instructions(self, field: FieldSpec, item: FieldSpec, attempt: int) -> Iterator[str]:
        start = self._task.seed(field.name, attempt)
        for place in range(len(_VERBS)):
            made = f"{_VERBS[(start + place * 3) % len(_VERBS)]} {self._aspect(attempt, place)[0]}"
            yield made if len(made) >= (item.bounds.least or 0) else self.prose(item, attempt, place)


def _uncapitalized(text: str) -> str:
    return text[:1].lower() + text[1:]


def fitted(text: str, most: int) -> str:
    """Cut at a word if too long; final punctuation stays."""
    if not most or len(text) <= most:
        return text
    mark = text[-1] if text[-1] in ".?!" else ""
    kept = text[: most - len(mark)]
    return (kept.rsplit(" ", 1)[0] if " " in kept else kept).rstrip(" ,.:;") + mark


_PIECE = Pattern(
    r"\[(?P<not>\^?)(?P<class>(?:\\.|[^\]\\])+)\]|\\(?P<escape>.)|(?P<sign>[\^$().?*+|])|(?P<letter>[^{}\[\]\\])"
    r"|\{(?P<least>[0-9]+)(?:,(?P<most>[0-9]*))?\}"
)
_RANGE = Pattern(r"(?P<first>[^\\])-(?P<last>[^\\])|\\(?P<escape>.)|(?P<one>.)")
_LETTERS, _DIGITS = "abcdefghijklmnopqrstuvwxyz", "0123456789"
_CLASSES = {"d": _DIGITS, "w": _LETTERS, "s": " "}
_MOST_REPEATS = 60


def example_of(pattern: str, chance: int) -> str:
    """A match of the first alternative; unsupported syntax is taken literally."""
    made: list[str] = []
    for number, (allowed, times) in enumerate(_pieces(pattern)):
        if not allowed:
            continue
        step = chance >> (number % 40)
        made += [allowed[(step + place * 7) % len(allowed)] for place in range(min(times, _MOST_REPEATS))]
    return "".join(made)


def _pieces(pattern: str) -> Iterator[tuple[str, int]]:
    """The characters allowed at each position, and how many are needed."""
    pending = ""
    for found in _PIECE.finditer(pattern):
        if found["least"] is not None:
            yield pending, int(found["least"])
            pending = ""
            continue
        if found["sign"] in ("?", "*", "+"):
            yield pending, 0 if found["sign"] in "?*" else 1
            pending = ""
            continue
        if found["sign"] == "|":
            break
        if pending:
            yield pending, 1
        pending = _allowed(found)
    if pending:
        yield pending, 1


def _allowed(found: PatternMatch) -> str:
    if found["class"]:
        inside = "".join(_members(found["class"]))
        every = _LETTERS + _LETTERS.upper() + _DIGITS
        return "".join(one for one in every if one not in inside) if found["not"] else inside
    if found["escape"]:
        return str(_CLASSES.get(found["escape"], found["escape"]))
    if found["sign"]:
        return _LETTERS if found["sign"] == "." else ""
    return str(found["letter"])


def _members(inside: str) -> Iterator[str]:
    for found in _RANGE.finditer(inside):
        if found["first"]:
            yield from map(chr, range(ord(found["first"]), min(ord(found["last"]), ord(found["first"]) + 100) + 1))
        elif found["escape"]:
            yield _CLASSES.get(found["escape"], found["escape"])
        else:
            yield found["one"]
