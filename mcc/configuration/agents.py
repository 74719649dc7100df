"""The operator's word for agent files of a workspace: kept for each file's path and content, and for no other."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.trust import TrustProblem, TrustStore, digest_of

KIND = "agents"


@dataclass(frozen=True, slots=True)
class AgentConsent:
    """What was trusted in one workspace; `problem` says why that cannot be known, and then nothing is."""

    root: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def read(cls, store: TrustStore, root: Path) -> "AgentConsent":
        """`root` is the real path of the workspace. Blocks."""
        try:
            return cls(root, store.digests(KIND))
        except TrustProblem as problem:
            return cls(root, problem=str(problem))

    def covers(self, path: str, content: bytes) -> bool:
        """Whether this very content was trusted at `path`, which is relative to the root."""
        return self.digests.get(str(self.root / path)) == digest_of(content)


def trust(store: TrustStore, root: Path, contents: Mapping[str, bytes]) -> None:
    """Keep the word for these files as they are now, by paths relative to the root. Raises `TrustProblem`."""
    store.keep(KIND, {root / path: digest_of(content) for path, content in contents.items()})


def revoke(store: TrustStore, root: Path) -> tuple[Path, ...]:
    """Take back every word for files below the root; answers which. Raises `TrustProblem`."""
    paths = tuple(path for path in map(Path, store.digests(KIND)) if path.is_relative_to(root))
    store.forget(KIND, paths)
    return paths
