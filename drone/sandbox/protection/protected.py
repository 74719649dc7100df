"""Protected paths, which no tool and no program in a sandbox may change: they configure programs, or hold secrets."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

from mcc.configuration.protected_names import ALWAYS, ENVIRONMENTS, SAMPLES, TABLE, ProtectedName
from mcc.rules.patterns import Pattern

NAMES: tuple[str, ...] = tuple(one.name for one in TABLE if len(one.parts) == 1 and "*" not in one.name)
"""Names that are protected in every directory, with everything below them; `TABLE` has further ones."""

OF_A_REPOSITORY: tuple[str, ...] = ("config", "config.worktree", "hooks", "info", "commondir")
"""Names that are protected in a git directory: `.git`, that of a submodule or worktree below it, a bare repository."""

GIT = ".git"
ATTRIBUTES = ".gitattributes"

_NO_GIT_DIRECTORIES = frozenset({"refs", "logs"})
"""Directories of `.git` in which those names are not protected: a branch may be named `config`."""

_DRIVERS = frozenset({"filter", "diff", "merge"})
_REFUSAL = "{path} is protected: no tool and no command changes {what}. Leave it as it is; a person can change it."
_MAY_BE_TAKEN_OUT = " The operator may take it out: [permission] unprotected = [{name!r}]."


def _by_last_part() -> Mapping[str, tuple[ProtectedName, ...]]:
    found: dict[str, tuple[ProtectedName, ...]] = {}
    for one in TABLE:
        if "*" not in one.name:
            found[one.parts[-1]] = (*found.get(one.parts[-1], ()), one)
    return found


_BY_LAST_PART = _by_last_part()
_STARRED: tuple[tuple[ProtectedName, str, str], ...] = tuple(
    (one, before, behind) for one in TABLE for before, star, behind in (one.name.casefold().partition("*"),) if star
)
"""The names with a star, what stands before it, and what behind it."""

_BEFORE_STARS = (ENVIRONMENTS, *(before for _, before, _ in _STARRED if before))
_BEHIND_STARS = tuple(behind for _, before, behind in _STARRED if not before)


def may_be_named(name: str) -> bool:
    """Whether a file of this plain name can be one of the table, by its last part alone. Fast."""
    return name in _BY_LAST_PART or name.startswith(_BEFORE_STARS) or name.endswith(_BEHIND_STARS)


class Protected:
    """The names of the table, the operator's own `globs`, and the names that the operator takes out again.

    A glob matches whole relative paths; one without a slash matches a name at any depth. `*` and `?` match within one
    name, `**` across names. Everything below a match is matched as well. Matching ignores case. `unprotected` never
    takes out what is in a git directory or MCC's own.
    """

    def __init__(self, globs: Sequence[str] = (), unprotected: Sequence[str] = ()) -> None:
        self._globs = tuple((glob, _compiled(glob)) for glob in globs)
        self._unprotected = tuple((glob, _compiled(glob)) for glob in unprotected)

    def refuses(self, path: str) -> str | None:
        """Why `path` (relative to the workspace, existing or not) may not be written, as a sentence; None if it may.

        By its name alone: `drone.sandbox.protection.refusals` knows about git directories of other names.
        """
        parts = _parts(path)
        if (what := _in_git(parts)) is not None:
            return _REFUSAL.format(path=_shown(path), what=what)
        if (name := self._named(parts)) is not None:
            return _REFUSAL.format(path=_shown(path), what=described(name)) + _way_out(name)
        if (glob := _matching(self._globs, parts)) is not None:
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
        if not (self._globs or may_be_named(plain(name))):
            return False
        parts = _parts(path)
        return self._ending(parts) is not None or _matching(self._globs, parts) is not None

    def _named(self, parts: Sequence[str]) -> ProtectedName | None:
        """The first name of the table that stands somewhere in this path and was not taken out."""
        return next(filter(None, (self._ending(parts[:length]) for length in range(1, len(parts) + 1))), None)

    def _ending(self, parts: Sequence[str]) -> ProtectedName | None:
        """The name of the table with which this path ends, unless the operator took it out."""
        name = _name_at_the_end(parts)
        if name is None or (name.name not in ALWAYS and _matching(self._unprotected, parts) is not None):
            return None
        return name


Globs = Sequence[tuple[str, Pattern]]


def _matching(globs: Globs, parts: Sequence[str]) -> str | None:
    """The first of the globs that matches this path or a directory above it."""
    above = ["/".join(parts[:length]) for length in range(1, len(parts) + 1)] if globs else []
    matching = (glob for glob, pattern in globs if any(pattern.fullmatch(one) for one in above))
    return next(matching, None)


def _name_at_the_end(parts: Sequence[str]) -> ProtectedName | None:
    if not parts:
        return None
    last = parts[-1]
    for one in _BY_LAST_PART.get(last, ()):
        if tuple(parts[-len(one.parts) :]) == one.parts:
            return one
    if last.startswith(ENVIRONMENTS) and last not in SAMPLES:
        return ProtectedName(last, "")
    for one, before, behind in _STARRED:
        if last.startswith(before) and last.endswith(behind):
            return one
    return None


def described(name: ProtectedName) -> str:
    """What this name is, in words that follow a verb."""
    if not name.program:
        return f"{name.name}, which may hold secrets"
    return name.name if name.name in ALWAYS else f"{name.name}, which makes {name.program} run or obey what it says"


def _way_out(name: ProtectedName) -> str:
    return "" if name.name in ALWAYS else _MAY_BE_TAKEN_OUT.format(name=name.name)


def plain(name: str) -> str:
    """A name as a file system sees it that ignores case, Unicode composition and invisible characters."""
    if name.isascii():
        return name.lower()
    seen = "".join(one for one in unicodedata.normalize("NFKC", name) if unicodedata.category(one) != "Cf")
    return unicodedata.normalize("NFKC", seen.casefold())


def refused_attributes(content: str) -> tuple[str, ...]:
    """The lines of a `.gitattributes` that set `filter`, `diff` or `merge`, which name programs that git runs."""
    return tuple(line for line in content.removeprefix("\ufeff").split("\n") if _names_a_driver(line))


def _names_a_driver(line: str) -> bool:
    # Only these separate words for git; to Python, many more characters end a line or a word.
    if (stripped := line.strip(" \t\r")).startswith("#"):
        return False
    words = stripped.replace("\t", " ").replace("\r", " ").split(" ")
    attributes = words if stripped.startswith("[attr]") else words[1:]
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


def _in_git(parts: Sequence[str]) -> str | None:
    """What of a `.git` this path is that nothing changes, in words; None where it is none of that."""
    return f"{GIT} itself" if parts[-1:] == [GIT] else next(_in_git_directories(parts), None)


def _in_git_directories(parts: Sequence[str]) -> Iterator[str]:
    for at, part in enumerate(parts):
        below = parts[at + 1 :] if part == GIT else []
        if below and below[0] not in _NO_GIT_DIRECTORIES:
            yield from (f"a repository's {name}" for name in below if name in OF_A_REPOSITORY)


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
