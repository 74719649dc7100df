"""The record of files written by others that the user has trusted: path and digest of each, in one file of the user."""

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
            make_private_directory(self.file.parent)
            directory = os.open(self.file.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # The directory is locked, since the file itself is replaced: a lock on the old one would keep nobody
                # out.
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
    """`trusted`, validated as {kind: {path: digest}}. Raises ValueError."""
    if not isinstance(trusted, dict):
        raise ValueError("it holds no table")
    for digests in trusted.values():
        if not isinstance(digests, dict) or not all(isinstance(digest, str) for digest in digests.values()):
            raise ValueError("it does not hold paths with digests")
    return trusted


def _replace(directory: int, name: str, trusted: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the file atomically and durably, with mode 0600."""
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
