"""What a model, or a tool, says just now: text on its way, of which only the end is kept for the terminal."""

from dataclasses import dataclass, field

KEPT_CHARACTERS = 4_000


@dataclass(slots=True, eq=False)
class Speech:
    """One call, of a model or a tool, that was not answered yet.

    `kind` "" = nothing has come; `tail` is the end of what came last.
    `called` are the tools of which calls are being written, with how many characters of arguments there are.
    """

    kind: str = ""
    tail: str = ""
    characters: int = 0
    called: dict[str, int] = field(default_factory=dict)

    def hear(self, kind: str, text: str, offset: int | None = None, tool: str = "") -> None:
        """A piece of `kind` (as in `Delta`), that begins behind `offset` characters of this kind; None = the next."""
        if kind == "tool_call.delta":
            self.kind = kind
            self.called[tool] = (self.called.get(tool, 0) if offset is None else offset) + len(text)
            return
        if kind != self.kind or offset == 0:
            self.kind, self.tail, self.characters = kind, "", offset or 0
        known = 0 if offset is None else max(0, self.characters - offset)
        self.tail = (self.tail + text[known:])[-KEPT_CHARACTERS:]
        self.characters = self.characters + len(text) if offset is None else max(self.characters, offset + len(text))

    @property
    def last_line(self) -> str:
        """The last line that has words."""
        return next((line for line in reversed(self.tail.splitlines()) if line.strip()), "")

    @property
    def in_brief(self) -> str:
        """What the model does, in words that go before its text."""
        match self.kind:
            case "":
                return "waiting for the model"
            case "thinking.delta":
                return "thinking"
            case "tool_call.delta":
                return "writes " + ", ".join(f"{name or 'a call'} ({size:,})" for name, size in self.called.items())
        return ""
