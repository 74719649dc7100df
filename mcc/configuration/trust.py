"""What their user trusted of files that others wrote: path and digest of each, kept in one file of the user's own."""

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mcc.configuration.places import NotPrivate, make_private_directory, read_private, refuse_others

TRUST_FILE = "trust.json"


class TrustProblem(ValueError):
    """What was trusted cannot be known or kept; the message is a sentence that says what to do."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class TrustStore:
    """The digests of what was trusted, by kind and by absolute path. Every call reads `file` anew.

    A digest that is kept for a path says nothing of the same path with other content. The file is believed only where
    nobody else can write it, and replaced as a whole; calls of several processes do not lose each other's words.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def within(cls, config_home: Path) -> "TrustStore":
        """The user's own, in the directory of the user's configuration."""
        return cls(config_home / TRUST_FILE)

    def digests(self, kind: str) -> Mapping[str, str]:
        """Path to digest. Raises `TrustProblem`."""
        return self._read().get(kind, {})

    def keep(self, kind: str, digests: Mapping[Path, str]) -> None:
        """Trust these, beside what is trusted already. Raises `TrustProblem`."""
        with self._changing() as trusted:
            trusted.setdefault(kind, {}).update({str(path): digest for path, digest in digests.items()})

    def forget(self, kind: str, paths: Iterable[Path]) -> None:
        """Trust these no longer. Raises `TrustProblem`."""
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
        """What is trusted, to be changed; written when the block ends, while nobody else changes it."""
        try:
            make_private_directory(self.file.parent)
            directory = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
                refuse_others(os.fstat(directory), self.file.parent)
                trusted = self._read()
                yield trusted
                _replace(directory, self.file.name, trusted)
            finally:
                os.close(directory)
        except (OSError, NotPrivate) as problem:
            raise TrustProblem(f"{self.file} cannot be written: {problem}") from problem


def _checked(trusted: object) -> dict[str, dict[str, str]]:
    """Raises ValueError for anything but kinds of paths with digests."""
    if not isinstance(trusted, dict):
        raise ValueError("it holds no table")
    for digests in trusted.values():
        if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
            raise ValueError("it does not hold paths with digests")
    return trusted


def _replace(directory: int, name: str, trusted: Mapping[str, Mapping[str, str]]) -> None:
    """Whole or not at all, for its owner alone."""
    fresh = f".{name}.{secrets.token_hex(6)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with open(os.open(fresh, flags, 0o600, dir_fd=directory), "w", encoding="utf-8") as stream:
            json.dump(trusted, stream, indent=1, sort_keys=True)
            stream.write("\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(fresh, name, src_dir_fd=directory, dst_dir_fd=directory)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=directory)
        raise


AGENTS = "agents"


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
            return cls(root, store.digests(AGENTS))
        except TrustProblem as problem:
            return cls(root, problem=str(problem))

    def covers(self, path: str, content: bytes) -> bool:
        """Whether this very content was trusted at `path`, which is relative to the root."""
        return self.digests.get(str(self.root / path)) == digest_of(content)


def trust_agents(store: TrustStore, root: Path, contents: Mapping[str, bytes]) -> None:
    """Keep the word for these files as they are now, by paths relative to the root. Raises `TrustProblem`."""
    store.keep(AGENTS, {root / path: digest_of(content) for path, content in contents.items()})


def forget_agents(store: TrustStore, root: Path) -> tuple[Path, ...]:
    """Take back every word for files below the root; answers which. Raises `TrustProblem`."""
    paths = tuple(path for path in map(Path, store.digests(AGENTS)) if path.is_relative_to(root))
    store.forget(AGENTS, paths)
    return paths
