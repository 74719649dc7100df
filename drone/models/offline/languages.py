"""How to recognize source files: their language, where programs begin, how names are defined."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from posixpath import basename

from mcc.rules.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Language:
    """One language, as RE2 patterns. `entry`: where a program begins, `public`: exported definitions, `imports`: import
    lines.

    `imports` is empty if such lines do not identify files.
    """

    name: str
    suffixes: tuple[str, ...]
    entry: str
    public: str
    imports: str = ""


_NODE_STARTS = r"^#!.*\bnode\b|^[^*/]*\.listen\(|require\.main === module"
_NODE_IMPORTS = r"\b(from|import|require)\s*\(?\s*[\"'][.][^\"']*[\"']"
_C_STARTS, _C_IMPORTS = r"^\s*(int\s+|void\s+)?main\s*\(", r"^\s*#\s*include\s*[<\"][^>\"]+[>\"]"
_PYTHON_IMPORTS = r"^\s*(from\s+[.\w]+\s+import\s|import\s+\w)"
_RUST_IMPORTS = r"^\s*(pub(\([a-z]+\))?\s+)?(use\s+(crate|super|self)::|mod\s+\w+\s*;)"
_GO_IMPORTS = r"^\s*(import\s+)?([\w.]+\s+)?\"[\w.-]+\.[\w.-]+/[^\"]*\"\s*(//.*)?$"
_C_PUBLIC = r"^[a-z].*\w\(.*\)\s*\{?$|^(class|struct|namespace) \w"
_PYTHON = (r"^if __name__ ==|^(async )?def main\(", r"^(class|def|async def) [A-Za-z]", _PYTHON_IMPORTS)
_RUST = (r"^\s*(pub )?(async )?fn main\(", r"^\s*pub (async )?(fn|struct|enum|trait|mod) ", _RUST_IMPORTS)

LANGUAGES: tuple[Language, ...] = (
    Language("Python", (".py",), *_PYTHON),
    Language("Rust", (".rs",), *_RUST),
    Language("Go", (".go",), r"^func main\(", r"^(func|type) (\([^)]*\) )?[A-Z]", _GO_IMPORTS),
    Language("TypeScript", (".ts", ".tsx", ".mts"), _NODE_STARTS, r"^export ", _NODE_IMPORTS),
    Language(
        "JavaScript",
        (".js", ".mjs", ".cjs", ".jsx"),
        _NODE_STARTS,
        r"^(export |module\.exports|exports\.)",
        _NODE_IMPORTS,
    ),
    Language("Java", (".java",), r"public static void main\(", r"^\s*(public|protected) ", r"^import (static )?[\w.]+"),
    Language("Kotlin", (".kt", ".kts"), r"^fun main\(", r"^(class|fun|object|interface|data class) "),
    Language("C", (".c", ".h"), _C_STARTS, _C_PUBLIC, _C_IMPORTS),
    Language("C++", (".cpp", ".cc", ".cxx", ".hpp"), _C_STARTS, r"^(class|struct|namespace) ", _C_IMPORTS),
    Language("C#", (".cs",), r"static .*\bMain\(|^var builder = ", r"^\s*public .*(class|interface|record|enum) "),
    Language("Ruby", (".rb",), r"^if __FILE__ ==|^#!.*ruby", r"^\s*(class|module|def self\.)"),
    Language("PHP", (".php",), r"^#!.*php|->run\(\)", r"^\s*(final |abstract )?(class|interface|trait|function) "),
    Language("Shell", (".sh", ".bash"), r"^main\(\)|^#!.*sh", r"^(function )?[a-z_]+\(\)"),
    Language("Elixir", (".ex", ".exs"), r"def start\(|def main\(", r"^defmodule "),
    Language("Swift", (".swift",), r"^@main|^import Foundation", r"^(public )?(class|struct|enum|func|protocol) "),
)

_PYTHONS, _NODES, _JVM, _CS = ("Python",), ("JavaScript", "TypeScript"), ("Java", "Kotlin"), ("C", "C++")
_BUILT_BY: Mapping[str, tuple[str, ...]] = {
    "pyproject.toml": _PYTHONS,
    "package.json": _NODES,
    "Cargo.toml": ("Rust",),
    "go.mod": ("Go",),
    **dict.fromkeys(("pom.xml", "build.gradle", "build.gradle.kts"), _JVM),
    **dict.fromkeys(("setup.py", "setup.cfg"), _PYTHONS),
    "composer.json": ("PHP",),
    "Gemfile": ("Ruby",),
    "mix.exs": ("Elixir",),
    **dict.fromkeys(("configure.ac", "CMakeLists.txt", "meson.build", "Makefile.am"), _CS),
}
BUILD_FILES = (*_BUILT_BY, "Makefile", "tox.ini", "Dockerfile")
"""Files that describe a project and its build, the most informative first."""

_BY_SUFFIX: Mapping[str, Language] = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_TEST = Pattern(
    r"(?:^|/)(?:tests?|__tests__|specs?|testdata|test[-_][\w-]+|jsontestrunner)/|(?:^|/)test_[^/]*$|[._-]tests?\.\w+$"
    r"|(?:\.specs?|_spec)\.(?:[cm]?[jt]sx?|rb)$"
    r"|(?:^|/)conftest\.py$|(?:^|/)Test[A-Z]\w*\.java$|Tests?\.(?:java|kt|cs)$"
)
_DOCUMENT = Pattern(r"\.(?:md|rst|adoc)$|(?:^|/)docs?/", ignore_case=True)
_ASIDE = Pattern(
    r"(?:^|/)(?:bench\w*|perf|examples?|samples?|demos?|docs?|docs_src|fixtures?|vendor|deps|node_modules"
    r"|third_party|contrib|devtools|build-aux|m4|ci|debian|packaging|android|fuzz|site|website|\.[\w-]+)/"
    r"|^(?:scripts?|tools?)/|(?:^|/)(?:build\.rs|setup\.py|noxfile\.py|conftest\.py|[\w.-]+\.config\.\w+|(?:gulp|Grunt|Jake)file\.js)$"
)
_README = Pattern(r"(?:^|/)readme(?:\.\w+)?$", ignore_case=True)


def suffix_of(path: str) -> str:
    """With the dot, in lower case; empty without one."""
    name = basename(path)
    return name[name.rindex(".") :].lower() if "." in name[1:] else ""


def language_of(path: str) -> Language | None:
    return _BY_SUFFIX.get(suffix_of(path))


def languages_of(paths: Iterable[str]) -> tuple[tuple[Language, int], ...]:
    """Languages with the number of `paths` in each, most frequent first."""
    counts: dict[str, int] = {}
    for path in paths:
        if language := language_of(path):
            counts[language.name] = counts.get(language.name, 0) + 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return tuple((language, counts[name]) for name in ordered for language in LANGUAGES if language.name == name)


def main_languages(paths: Iterable[str], build_files: Iterable[str] = ()) -> tuple[Language, ...]:
    """At most three main languages of a program, each with at least a tenth of its sources.

    If root build files exist, only their languages count, because occasional scripts are not part of the program.
    """
    counted = languages_of(paths)
    built = {name for path in build_files for name in _BUILT_BY.get(path, ())}
    known = [(language, count) for language, count in counted if language.name in built]
    known = known or [(language, count) for language, count in counted if language.name != "Shell"] or list(counted)
    total = sum(count for _, count in known)
    return tuple(language for language, count in known if count * 10 >= total)[:3]


def glob_of(*languages: Language) -> str:
    """A glob for files in these languages."""
    bare = [suffix.removeprefix(".") for language in languages for suffix in language.suffixes]
    return f"*.{bare[0]}" if len(bare) == 1 else f"*.{{{','.join(bare)}}}"


def is_test(path: str) -> bool:
    return bool(_TEST.search(path))


def is_accompanying(path: str) -> bool:
    """Whether the path is in a directory that accompanies a program, or is a file that only builds or configures it."""
    return bool(_ASIDE.search(path))


def is_document(path: str) -> bool:
    return bool(_DOCUMENT.search(path))


def is_readme(path: str) -> bool:
    return bool(_README.search(path))


def is_source(path: str) -> bool:
    """Whether it is the program's own code: of a known language, and no test."""
    return language_of(path) is not None and not is_test(path)


def depth_of(path: str) -> int:
    return path.count("/")
