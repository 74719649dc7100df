"""The record of files written by others that the user has trusted: path and digest of each, in one file of the user."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.places import NotPrivate, read_private
from mcc.configuration.replacing import locked_directory, replace_json

TRUST_FILE = "trust.json"


class TrustProblem(ValueError):
    """The trust file cannot be read or written. The message is a sentence that says what to do."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class TrustStore:
    """The digests of trusted files, by kind and absolute path. Every call reads the trust file anew.

    Trust holds for exactly the content whose digest is kept, not for later content at the same path. The trust file is
    read only if nobody else can write it, and is replaced atomically under a lock, so that concurrent changes by
    several processes are all kept.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def within(cls, config_home: Path) -> "TrustStore":
        """The trust store in the user's configuration directory."""
        return cls(config_home / TRUST_FILE)

    def digests(self, kind: str) -> Mapping[str, str]:
        """The trusted files of one kind: path to digest. Raises `TrustProblem`."""
        return self._read().get(kind, {})

    def keep(self, kind: str, digests: Mapping[Path, str]) -> None:
        """Trust these contents, besides those already trusted. Raises `TrustProblem`."""
        with self._changing() as trusted:
            trusted.setdefault(kind, {}).update({str(path): digest for path, digest in digests.items()})

    def forget(self, kind: str, paths: Iterable[Path]) -> None:
        """Withdraw trust in these files. Raises `TrustProblem`."""
        with self._changing() as trusted:
            for path in paths:
                trusted.get(kind, {}).pop(str(path), None)

    def _read(self) -> dict[str, dict[str, str]]:
        try:
            return _checked(json.loads(read_private(self.file)))
        except FileNotFoundError:
            return {}
        except NotPrivate as problem:
            raise TrustProblem(str(problem)) from problem
        except (OSError, ValueError, RecursionError) as problem:
            raise TrustProblem(f"{self.file} cannot be read ({problem}): remove it, and trust anew.") from problem

    @contextmanager
    def _changing(self) -> Iterator[dict[str, dict[str, str]]]:
        """The trusted digests, for the block to change. They are written at its end, under an exclusive lock."""
        try:
            with locked_directory(self.file) as directory:
                trusted = self._read()
                yield trusted
                replace_json(directory, self.file.name, trusted)
        except (OSError, NotPrivate) as problem:
            raise TrustProblem(f"{self.file} cannot be written: {problem}") from problem


def _checked(trusted: object) -> dict[str, dict[str, str]]:
    """`trusted`, validated as {kind: {path: digest}}. Raises ValueError."""
    if not isinstance(trusted, dict):
        raise ValueError("it holds no table")
    for digests in trusted.values():
        if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
            raise ValueError("it does not hold paths with digests")
    return trusted


AGENTS = "agents"


@dataclass(frozen=True, slots=True)
class AgentConsent:
    """The agent files trusted in one workspace. `problem` says why they cannot be known; then none is trusted."""

    root: Path
    digests: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def read(cls, store: TrustStore, root: Path) -> "AgentConsent":
        """Read the trusted digests. `root` is the workspace's path without symlinks. Blocks."""
        try:
            return cls(root, store.digests(AGENTS))
        except TrustProblem as problem:
            return cls(root, problem=str(problem))

    def covers(self, path: str, content: bytes) -> bool:
        """Whether exactly this content was trusted at `path`, relative to the root."""
        return self.digests.get(str(self.root / path)) == digest_of(content)


def trust_agents(store: TrustStore, root: Path, contents: Mapping[str, bytes]) -> None:
    """Trust these agent files with these contents; paths are relative to the root. Raises `TrustProblem`."""
    store.keep(AGENTS, {root / path: digest_of(content) for path, content in contents.items()})


def forget_agents(store: TrustStore, root: Path) -> tuple[Path, ...]:
    """Withdraw trust in all agent files below the root. Answers their paths. Raises `TrustProblem`."""
    paths = tuple(path for path in map(Path, store.digests(AGENTS)) if path.is_relative_to(root))
    store.forget(AGENTS, paths)
    return paths
