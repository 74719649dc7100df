"""The survey: all tool results of a turn about a workspace, in order."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename

from drone.models.offline.conversation import FINISH, CallResult, Conversation
from drone.models.offline.imports import Graph, graph
from drone.models.offline.languages import (
    BUILD_FILES,
    Language,
    depth_of,
    is_accompanying,
    is_readme,
    is_source,
    is_test,
    language_of,
    main_languages,
)
from drone.models.offline.manifests import Manifest, manifest
from drone.models.offline.prose import names_defined
from drone.models.offline.tool_output import (
    Environment,
    Hit,
    Listing,
    Page,
    environment,
    hits,
    is_cut,
    listing,
    page,
    paths_in,
)

_LARGE_PROGRAM = 200
_MOST_NAMES = 40


@dataclass(frozen=True, slots=True)
class Search:
    """One `search_text` call with its hits."""

    pattern: str
    path: str
    hits: tuple[Hit, ...]
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Survey:
    """`counted`: the number of files per `find_files` pattern; `whole`: False if a listing was cut short."""

    files: tuple[str, ...]
    sources: tuple[str, ...]
    tests: tuple[str, ...]
    counted: Mapping[str, int]
    whole: bool
    searches: tuple[Search, ...]
    pages: Mapping[str, Page]
    environment: Environment
    status: tuple[str, ...]
    log: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def readmes(self) -> list[str]:
        found = [path for path in self.files if is_readme(path) and depth_of(path) <= 1]
        return sorted(found, key=lambda path: (depth_of(path), path))

    @property
    def build_files(self) -> list[str]:
        rank = {name: index for index, name in enumerate(BUILD_FILES)}
        found = [path for path in self.files if basename(path) in rank]
        near = [
            path for path in found if not is_accompanying(path) and (not is_test(path) or depth_of(path) == 1)
        ] or found
        return sorted(near, key=lambda path: (depth_of(path), rank[basename(path)], path))

    @property
    def manifests(self) -> list[Manifest]:
        """The build files that were read."""
        return [manifest(path, self.pages[path]) for path in self.build_files if path in self.pages]

    def by_directory(self, levels: int = 1) -> list[tuple[str, int]]:
        """Top directories (at most `levels` deep) with the number of known files below each, fullest first."""
        counts = Counter("/".join(path.split("/")[:-1][:levels]) for path in self.files if "/" in path)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))

    @property
    def own(self) -> tuple[str, ...]:
        """The program's own sources: in its main languages, without tests and accompanying files."""
        names = {language.name for language in self.languages}
        return tuple(path for path in self.sources if _language_name(path) in names and not is_accompanying(path))

    @property
    def languages(self) -> tuple[Language, ...]:
        near = [path for path in self.sources if not is_accompanying(path)]
        return main_languages(near or self.sources, self.build_files)

    def graph(self) -> Graph:
        """The import graph of the program's own files, from searches for import lines."""
        own = frozenset(self.own)
        lines = (hit for language in self.languages if language.imports for hit in self.found(self.importing(language)))
        return graph((hit for hit in lines if hit.path in own), own, self.go_module)

    @property
    def go_module(self) -> str:
        return next((found.name for found in self.manifests if found.path.endswith("go.mod")), "")

    def importing(self, language: Language) -> str:
        """The pattern for import lines; in Python and Go only for imports of this program's own modules."""
        match language.name:
            case "Python":
                own = {path.removeprefix("src/").split("/")[0].removesuffix(".py") for path in self.own}
                names = "|".join(sorted(name for name in own if name.isidentifier())[:_MOST_NAMES])
                return rf"^\s*(from\s+(\.|({names})\b)[.\w]*\s+import\s|import\s+({names})\b)"
            case "Go" if self.go_module:
                return '"' + self.go_module.replace(".", "[.]") + '[/"]'
        return language.imports

    def regions(self) -> tuple[str, ...]:
        """Where to search: everywhere, or in each of the largest top directories of a large program."""
        tops = Counter(path.split("/")[0] for path in self.own if "/" in path)
        if len(self.own) < _LARGE_PROGRAM:
            return ("",)
        return tuple(name for name, _ in sorted(tops.items(), key=lambda item: (-item[1], item[0]))[:4])

    def names_in(self, path: str) -> tuple[str, ...]:
        """Public names that a file defines, from search hits or from its text."""
        language = language_of(path)
        found = [hit for hit in self.found(language.public) if hit.path == path] if language else []
        lines = self.pages[path].lines if path in self.pages else ()
        return names_defined(hit.text for hit in found) or names_defined(lines)

    def is_cut(self, pattern: str) -> bool:
        """Whether searches for `pattern` were cut short."""
        return any(search.cut for search in self.searches if search.pattern == pattern)

    def found(self, pattern: str) -> tuple[Hit, ...]:
        """All hits of searches for `pattern`, in order."""
        return tuple(hit for search in self.searches if search.pattern == pattern for hit in search.hits)


def survey(conversation: Conversation) -> Survey:
    """Sort the results of a turn by tool."""
    lists = [(done, listing(done.content)) for name in _LISTS for done in conversation.results(name)]
    files = tuple(dict.fromkeys(path for done, found in lists for path in _root_paths(done, found)))
    if not lists:
        files = paths_in("\n".join(done.content for done in conversation.done if not done.is_error))
    return Survey(
        files=files,
        sources=tuple(path for path in files if is_source(path)),
        tests=tuple(path for path in files if is_test(path) and language_of(path)),
        counted={
            str(done.arguments["pattern"]): found.total or len(found.files)
            for done, found in lists
            if "pattern" in done.arguments and (found.total is not None or not found.cut)
        },
        whole=not any(found.cut for _, found in lists),
        searches=tuple(_search(done) for done in conversation.results("search_text")),
        pages=_pages(conversation.results("read_file")),
        environment=environment("\n".join(done.content for done in conversation.results("environment_detect"))),
        status=_lines(conversation.results("git_status")),
        log=_lines(conversation.results("git_log")),
        problems=tuple(
            f"{done.name}: {_first_line(done.content)}"
            for done in conversation.done
            if done.is_error and done.name not in FINISH
        ),
    )


def _language_name(path: str) -> str:
    language = language_of(path)
    return language.name if language else ""


_LISTS = ("list_files", "find_files")


def _root_paths(done: CallResult, found: Listing) -> tuple[str, ...]:
    """The files of a listing as paths from the workspace root, even if only a part was listed."""
    asked = str(done.arguments.get("path") or "").strip("./")
    if not asked or any(path.startswith(asked + "/") for path in found.files):
        return found.files
    return tuple(f"{asked}/{path}" for path in found.files)


def _pages(read: Sequence[CallResult]) -> dict[str, Page]:
    """The files by path, in the order they were read; of several parts of a file, the topmost."""
    pages: dict[str, Page] = {}
    starts: dict[str, int] = {}
    for done in read:
        path, first = str(done.arguments.get("path")).removeprefix("./"), done.arguments.get("start_line")
        start = first if isinstance(first, int) else 1
        if start < starts.setdefault(path, start + 1):
            pages[path], starts[path] = page(done.content, path), start
    return pages


def _search(done: CallResult) -> Search:
    arguments = done.arguments
    return Search(
        str(arguments.get("pattern", "")), str(arguments.get("path", "")), hits(done.content), is_cut(done.content)
    )


def _lines(results: Sequence[CallResult]) -> tuple[str, ...]:
    return tuple(line.rstrip() for done in results for line in done.content.splitlines() if line.strip())


def _first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:200]
