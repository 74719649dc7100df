"""Paths that no tool and no program of a workspace changes: they decide what other programs do, or hold secrets."""

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
"""Protected wherever they are, with all that is below them."""

OF_A_REPOSITORY: tuple[str, ...] = ("config", "config.worktree", "hooks", "info", "commondir")
"""Protected in the directory of a repository: `.git`, a submodule's or a worktree's below it, a bare one."""

GIT = ".git"
ATTRIBUTES = ".gitattributes"

_NAMES = {name.casefold(): name for name in NAMES}
_ENV = ".env."
_SAMPLES = frozenset({".env.example", ".env.sample", ".env.template"})
_NO_DIRECTORIES_OF_ITS = frozenset({"refs", "logs"})
"""Of `.git`: a branch may be named `config`."""

_DRIVERS = frozenset({"filter", "diff", "merge"})
_WORD = "{path} is protected: no tool and no command changes {what}. Leave it as it is; a person can change it."


class Protected:
    """The fixed list, and the operator's own globs.

    A glob is about whole relative paths; without a slash it is about a name at any depth. `*` and `?` stay within one
    name, `**` does not; whatever lies below what fits is protected as well. Case never counts.
    """

    def __init__(self, globs: Sequence[str] = ()) -> None:
        self._globs = tuple((glob, _compiled(glob)) for glob in globs)

    def refuses(self, path: str) -> str | None:
        """Why `path` (relative to the workspace, there or not) is not written, as a sentence; None when it may be."""
        parts = _parts(path)
        if (what := _fixed(parts)) is not None:
            return _WORD.format(path=_shown(path), what=what)
        if (glob := self._fitting(parts)) is not None:
            return _WORD.format(path=_shown(path), what=f"what fits {glob!r}, which the operator protects")
        return None

    def refused_content(self, path: str, content: str) -> str | None:
        """Why this may not be the content of `path`; None when it may. About `.gitattributes` alone."""
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
        """Whether `path`, whose last name is `name`, is protected by that name or by a glob.

        What is protected as a part of a repository is not asked here.
        """
        return _own_name(plain(name)) is not None or (bool(self._globs) and self._fitting(_parts(path)) is not None)

    def _fitting(self, parts: Sequence[str]) -> str | None:
        """The first glob that fits this path or a directory above it."""
        above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)] if self._globs else []
        fitting = (glob for glob, pattern in self._globs if any(pattern.fullmatch(one) for one in above))
        return next(fitting, None)


def plain(name: str) -> str:
    """A name as a file system sees it for which neither case, nor composition, nor unseen characters count."""
    if name.isascii():
        return name.lower()
    seen = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    return unicodedata.normalize("NFKC", seen.casefold())


def refused_attributes(content: str) -> tuple[str, ...]:
    """The lines of a `.gitattributes` that say something of `filter`, `diff` or `merge`."""
    return tuple(line for line in content.removeprefix("\ufeff").splitlines() if _names_a_driver(line))


def _names_a_driver(line: str) -> bool:
    if (stripped := line.strip()).startswith("#"):
        return False
    attributes = stripped.split() if stripped.startswith("[attr]") else stripped.split()[1:]
    return any(one.lstrip("-!").partition("=")[0].casefold() in _DRIVERS for one in attributes)


def _parts(path: str) -> list[str]:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(plain(part))
    return parts


def _fixed(parts: Sequence[str]) -> str | None:
    """What the fixed list protects of this path, in words."""
    named = next((name for part in parts if (name := _own_name(part)) is not None), None)
    if named is not None:
        return named
    if parts[-1:] == [GIT]:
        return f"{GIT} itself"
    return next(_in_repositories(parts), None)


def _in_repositories(parts: Sequence[str]) -> Iterator[str]:
    for at, part in enumerate(parts):
        below = parts[at + 1 :] if part == GIT else []
        if below and below[0] not in _NO_DIRECTORIES_OF_ITS:
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
    """The glob as an expression, piece by piece."""
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
