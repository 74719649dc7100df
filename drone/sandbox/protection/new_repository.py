"""What a command may leave in a git directory that it made: a configuration of harmless keys, and sample hooks."""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from drone.sandbox.places.beneath import opened_beneath
from drone.sandbox.protection.protected import plain

MOST_BYTES = 100_000

_KEYS = frozenset(
    {
        *(f"core.{key}" for key in ("repositoryformatversion", "filemode", "bare", "logallrefupdates")),
        *(f"core.{key}" for key in ("ignorecase", "precomposeunicode", "symlinks")),
        "extensions.objectformat",
        *("user.name", "user.email"),
    }
)
_OF_ANY_NAME = frozenset({"remote.fetch", "remote.url", "branch.remote", "branch.merge"})
"""Keys of sections with a name of their own, as `remote.origin.url`."""

_NO_COPYING = "init.templatedir"
"""The one key of `init` that is not harmless: `git init`, run again, copies hooks from that directory."""

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SAMPLE = ".sample"


class Setting(NamedTuple):
    """One setting of git's configuration: `key` in lower case, the section's own name left out (`remote.url`)."""

    section: str
    has_name: bool
    key: str
    value: str

    @property
    def is_harmless(self) -> bool:
        key = f"{self.section}.{self.key}"
        # `ext::…` and its like name a program that git runs as a transport, and a leading dash is read as an option.
        if self.section in ("remote", "branch") and ("::" in self.value or self.value.startswith("-")):
            return False
        if self.has_name:
            return key in _OF_ANY_NAME
        return key in _KEYS or (self.section == "init" and key != _NO_COPYING)


def settings(text: str) -> Iterator[Setting]:
    """The settings of a configuration as git itself writes them. Raises ValueError for any other form: what is not
    read for certain is not harmless."""
    section: tuple[str, bool] | None = None
    for line in text.split("\n"):
        stripped = line.strip(" \t")
        if any(character < " " and character != "\t" for character in line) or "\\" in line:
            raise ValueError("it has characters that git's own configurations do without")
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[":
            section = _section(stripped)
        elif section is None:
            raise ValueError("it has a setting outside of all sections")
        else:
            key, _, value = (part.strip(" \t") for part in stripped.partition("="))
            if not _is_word(key):
                raise ValueError("it has a line that is no setting")
            yield Setting(*section, key.lower(), value.replace('"', "").strip(" \t"))


def _section(header: str) -> tuple[str, bool]:
    """The section's name in lower case, and whether it has a name of its own behind it."""
    if header[-1] != "]":
        raise ValueError("it has a section and more on one line")
    name, _, subsection = (part.strip(" \t") for part in header[1:-1].partition(" "))
    named = len(subsection) > 2 and subsection[0] == subsection[-1] == '"' and '"' not in subsection[1:-1]
    if not _is_word(name) or (subsection and not named):
        raise ValueError("it has a section whose name is not plain")
    return name.lower(), bool(subsection)


def _is_word(text: str) -> bool:
    return text.isascii() and text.replace("-", "a").isalnum() and text[0].isalpha()


def what_is_left(directory: int, name: str) -> Sequence[str]:
    """The paths, from the new git directory `directory`, of what may not stay of its protected entry `name`: none where
    all is harmless. Blocks."""
    judge = _JUDGES.get(plain(name))
    if judge is None:
        return (name,)
    try:
        return tuple(judge(directory, name))
    except (OSError, ValueError):
        return (name,)


def _of_configuration(directory: int, name: str) -> Iterator[str]:
    if not all(one.is_harmless for one in settings(_text(directory, name))):
        yield name


def _of_hooks(directory: int, name: str) -> Iterator[str]:
    """All but the samples: git runs a hook only by its exact name."""
    fd = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        with os.scandir(fd) as entries:
            others = [entry.name for entry in entries if not _is_sample(entry)]
    finally:
        os.close(fd)
    yield from (f"{name}/{other}" for other in others)


def _is_sample(entry: "os.DirEntry[str]") -> bool:
    return plain(entry.name).endswith(_SAMPLE) and entry.is_file(follow_symlinks=False)


def _of_info(directory: int, name: str) -> Iterator[str]:
    """The template's file `exclude` of comments alone stays, as it says nothing."""
    fd = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        if set(os.listdir(fd)) - {"exclude"}:
            yield name
            return
        lines = _text(fd, "exclude").split("\n") if os.listdir(fd) else []
        if any(line and not line.startswith("#") for line in lines):
            yield name
    finally:
        os.close(fd)


_JUDGES: dict[str, Callable[[int, str], Iterator[str]]] = {
    "config": _of_configuration,
    "hooks": _of_hooks,
    "info": _of_info,
}


def _text(directory: int, name: str) -> str:
    """The text of a regular file that has no other name, through which it could be changed later."""
    with open(opened_beneath(directory, name, _FILE), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ValueError("not a regular file of its own")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError("too long")
    return content.decode("utf-8")
