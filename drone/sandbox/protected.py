"""Protected paths, which no tool and no program in a sandbox may change: they configure programs, or hold secrets."""

import unicodedata
from collections.abc import Iterator, Sequence

from mcc.rules.patterns import Pattern

NAMES: tuple[str, ...] = (
    ".gitmodules",
    ".gitconfig",
    ".mcc",
    ".mcc-workspace",
    "mcc.toml",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    ".env",
    ".envrc",
    ".vscode",
    ".idea",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".login",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".ripgreprc",
    ".rgrc",
)
"""Names that are protected in every directory, with everything below them."""

OF_A_REPOSITORY: tuple[str, ...] = ("config", "config.worktree", "hooks", "info", "commondir")
"""Names that are protected in a git directory: `.git`, that of a submodule or worktree below it, a bare repository."""

GIT = ".git"
ATTRIBUTES = ".gitattributes"

_NAMES = {name.casefold(): name for name in NAMES}
_ENV = ".env."
_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
_NO_GIT_DIRECTORIES = frozenset({"refs", "logs"})
"""Directories of `.git` in which those names are not protected: a branch may be named `config`."""

_DRIVERS = frozenset({"filter", "diff", "merge"})
_REFUSAL = "{path} is protected: no tool and no command changes {what}. Leave it as it is; a person can change it."


class Protected:
    """The fixed list of protected paths, and the operator's own globs.

    A glob matches whole relative paths; one without a slash matches a name at any depth. `*` and `?` match within one
    name, `**` across names. Everything below a match is protected as well. Matching ignores case.
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        self._globs = tuple((glob, _compiled(glob)) for glob in globs)

    def refuses(self, path: str) -> str | None:
        """Why `path` (relative to the workspace, existing or not) may not be written, as a sentence; None if it may."""
        parts = _parts(path)
        if (what := _fixed(parts)) is not None:
            return _REFUSAL.format(path=_shown(path), what=what)
        if (glob := self._matching(parts)) is not None:
            return _REFUSAL.format(path=_shown(path), what=f"what fits {glob!r}, which the operator protects")
        return None

    def refused_content(self, path: str, content: str) -> str | None:
        """Why this may not be the content of `path`; None if it may. Only `.gitattributes` has such rules."""
        if _parts(path)[-1:] != [ATTRIBUTES] or not (lines := refused_attributes(content)):
            return None
        return (
            f"{_shown(path)} may not have lines with filter, diff or merge, which name programs that git runs: "
            f"{_shown(lines[0])}"
        )

    @property
    def has_globs(self) -> bool:
        return bool(self._globs)

    def covers(self, path: str, name: str) -> bool:
        """Whether `path`, whose last name is `name`, is protected by that name or by a glob. Names that are protected
        only in a git directory are not considered here."""
        return _own_name(plain(name)) is not None or (bool(self._globs) and self._matching(_parts(path)) is not None)

    def _matching(self, parts: Sequence[str]) -> str | None:
        """The first glob that matches this path or a directory above it."""
        above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)] if self._globs else []
        matching = (glob for glob, pattern in self._globs if any(pattern.fullmatch(one) for one in above))
        return next(matching, None)


def plain(name: str) -> str:
    """A name as a file system sees it that ignores case, Unicode composition and invisible characters."""
    if name.isascii():
        return name.lower()
    seen = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    return unicodedata.normalize("NFKC", seen.casefold())


def refused_attributes(content: str) -> tuple[str, ...]:
    """The lines of a `.gitattributes` that set `filter`, `diff` or `merge`, which name programs that git runs."""
    return tuple(line for line in content.removeprefix("\ufeff").splitlines() if _names_a_driver(line))


def _names_a_driver(line: str) -> bool:
    if (stripped := line.strip()).startswith("#"):
        return False
    attributes = stripped.split() if stripped.startswith("[attr]") else stripped.split()[1:]
    return any(one.lstrip("-!").partition("=")[0].casefold() in _DRIVERS for one in attributes)


def _parts(path: str) -> list[str]:
    """The plain names of a relative path, `.` and `..` resolved by text."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(plain(part))
    return parts


def _fixed(parts: Sequence[str]) -> str | None:
    """The part of this path that the fixed list protects, in words; None where there is none."""
    named = next((name for part in parts if (name := _own_name(part)) is not None), None)
    if named is not None:
        return named
    if parts[-1:] == [GIT]:
        return f"{GIT} itself"
    return next(_in_git_directories(parts), None)


def _in_git_directories(parts: Sequence[str]) -> Iterator[str]:
    for at, part in enumerate(parts):
        below = parts[at + 1 :] if part == GIT else []
        if below and below[0] not in _NO_GIT_DIRECTORIES:
            yield from (f"a repository's {name}" for name in below if name in OF_A_REPOSITORY)


def _own_name(part: str) -> str | None:
    if part in _NAMES:
        return _NAMES[part]
    return f"{part}, which may hold secrets" if part.startswith(_ENV) and part not in _SAMPLES else None


def _compiled(glob: str) -> Pattern:
    path = glob.casefold().strip("/")
    source = "".join(_pieces(path))
    return Pattern(source if "/" in path else f"(?:.*/)?{source}", across=True)


def _pieces(glob: str) -> Iterator[str]:
    """The glob translated to a regular expression, piece by piece."""
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at):
            yield "(?:.*/)?"
            at += 3
        elif glob.startswith("**", at):
            yield ".*"
            at += 2
        else:
            yield {"*": "[^/]*", "?": "[^/]"}.get(glob[at]) or f"\\x{{{ord(glob[at]):x}}}"
            at += 1


def _shown(text: str) -> str:
    cut = text if len(text) <= 200 else f"{text[:200]}…"
    return cut if cut.isprintable() else ascii(cut)
