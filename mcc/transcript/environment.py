"""What an agent is told of its surroundings before its prompt, in parts: later turns repeat those that have changed."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from mcc.contracts.fence import fenced

GUIDE = "AGENTS.md"
CHANGED = "# Environment (changed)\n\n"
"""Begins the environment of a later turn, which has only the parts that have changed."""

UNTRUSTED = ("survey", "git", "agents_md")
"""Parts whose words come from the workspace, in the sequence in which they are shown within one fence."""


@dataclass(frozen=True, slots=True)
class Environment:
    """`parts`: texts by name: `limits`, `date`, `workspace`, those of `UNTRUSTED`, `document`, `worktree`."""

    parts: Mapping[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to describe besides limits."""
        return any(text for name, text in self.parts.items() if name != "limits")

    def having(self, **parts: str) -> "Environment":
        """The same with these parts in addition; empty ones are left out."""
        return replace(self, parts={**self.parts, **{name: text for name, text in parts.items() if text}})

    @property
    def text(self) -> str:
        """All of it, one part after the other."""
        part = self.parts.get
        first = " ".join(filter(None, (part("date"), part("workspace"))))
        text = "\n".join(filter(None, (part("limits"), first, self.look)))
        text = "\n\n".join(filter(None, (text, part("document"))))
        return "\n".join(filter(None, (text, part("worktree"))))

    @property
    def look(self) -> str:
        """What a look at the workspace found, in a fence."""
        body = "\n".join(self.parts[name] for name in UNTRUSTED if self.parts.get(name))
        if not body:
            return ""
        guide = f", and how {GUIDE} in it begins" if self.parts.get("agents_md") else ""
        return f"What a look at the workspace found{guide}:\n{fenced(body, GUIDE)}"

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each part, in hex."""
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.parts.items()}

    def beyond(self, known: Mapping[str, str]) -> str:
        """What a model is told that has been told the parts with these digests: all if there are none, else what has
        changed, under a heading of its own."""
        if not known:
            return self.text
        changed = {name for name, digest in self.digests.items() if known.get(name) != digest}
        fresh = replace(self, parts={name: text for name, text in self.parts.items() if name in changed})
        return f"{CHANGED}{fresh.text}" if fresh.parts else ""


NO_ENVIRONMENT = Environment()
