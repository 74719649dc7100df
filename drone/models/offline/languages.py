"""What gives a source file away: its language, where such programs begin, how they name things."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcc.rules.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Language:
    """One language. `entry` and `public` are RE2 patterns: where a program begins, what others may use."""

    name: str
    suffixes: tuple[str, ...]
    entry: str
    public: str
    fronts: tuple[str, ...] = ()
    """Names of files that stand for their directory."""


LANGUAGES: tuple[Language, ...] = (
    Language(
        "Python",
        (".py",),
        r"^if __name__ ==|^(async )?def main\(",
        r"^(class|def|async def) [A-Za-z]",
        ("__init__.py", "__main__.py", "main.py", "app.py", "cli.py", "core.py"),
    ),
    Language(
        "Rust",
        (".rs",),
        r"^\s*(pub )?(async )?fn main\(",
        r"^\s*pub (async )?(fn|struct|enum|trait|mod) ",
        ("lib.rs", "main.rs", "mod.rs"),
    ),
    Language("Go", (".go",), r"^func main\(", r"^(func|type) (\([^)]*\) )?[A-Z]", ("doc.go", "main.go")),
    Language(
        "TypeScript",
        (".ts", ".tsx", ".mts"),
        r"^#!.*\bnode\b|^[^*/]*\.listen\(|require\.main === module",
        r"^export ",
        ("index.ts", "main.ts", "index.tsx", "app.ts", "cli.ts"),
    ),
    Language(
        "JavaScript",
        (".js", ".mjs", ".cjs", ".jsx"),
        r"^#!.*\bnode\b|^[^*/]*\.listen\(|require\.main === module",
        r"^(export |module\.exports|exports\.)",
        ("index.js", "main.js", "app.js", "cli.js", "index.mjs", "server.js"),
    ),
    Language(
        "Java", (".java",), r"public static void main\(", r"^public .*(class|interface|enum|record) ", ("Main.java",)
    ),
    Language("Kotlin", (".kt", ".kts"), r"^fun main\(", r"^(class|fun|object|interface|data class) ", ("Main.kt",)),
    Language("C", (".c", ".h"), r"^\s*int\s+main\s*\(", r"^[a-z].*\w\(.*\)\s*\{?$", ("main.c",)),
    Language(
        "C++", (".cpp", ".cc", ".cxx", ".hpp"), r"^\s*int\s+main\s*\(", r"^(class|struct|namespace) ", ("main.cpp",)
    ),
    Language(
        "C#",
        (".cs",),
        r"static .*\bMain\(|^var builder = ",
        r"^\s*public .*(class|interface|record|enum) ",
        ("Program.cs",),
    ),
    Language("Ruby", (".rb",), r"^if __FILE__ ==|^#!.*ruby", r"^\s*(class|module|def self\.)", ("main.rb",)),
    Language(
        "PHP",
        (".php",),
        r"^#!.*php|->run\(\)",
        r"^\s*(final |abstract )?(class|interface|trait|function) ",
        ("index.php",),
    ),
    Language("Shell", (".sh", ".bash"), r"^main\(\)|^#!.*sh", r"^(function )?[a-z_]+\(\)"),
    Language("Elixir", (".ex", ".exs"), r"def start\(|def main\(", r"^defmodule "),
    Language(
        "Swift",
        (".swift",),
        r"^@main|^import Foundation",
        r"^(public )?(class|struct|enum|func|protocol) ",
        ("main.swift",),
    ),
)

BUILD_FILES = (
    "pyproject.toml",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "setup.py",
    "setup.cfg",
    "composer.json",
    "Gemfile",
    "mix.exs",
    "CMakeLists.txt",
    "Makefile",
    "Dockerfile",
)
"""Files that say what a project is and how it is built, the most telling first."""

_BY_SUFFIX: Mapping[str, Language] = {suffix: language for language in LANGUAGES for suffix in language.suffixes}
_TEST = Pattern(
    r"(?:^|/)(?:tests?|__tests__|specs?)/|(?:^|/)test_[^/]*$|[._-](?:test|spec)s?\.\w+$|(?:^|/)conftest\.py$"
)
_DOCUMENT = Pattern(r"\.(?:md|rst|adoc)$|(?:^|/)docs?/", ignore_case=True)
_ASIDE = Pattern(
    r"(?:^|/)(?:bench\w*|examples?|samples?|scripts?|docs?|tools?|fixtures?|vendor|deps|node_modules|third_party|contrib)/"
)
_README = Pattern(r"(?:^|/)readme(?:\.\w+)?$", ignore_case=True)


def suffix_of(path: str) -> str:
    """With its dot, in lower case; empty without one."""
    name = path.rsplit("/", 1)[-1]
    return name[name.rindex(".") :].lower() if "." in name[1:] else ""


def language_of(path: str) -> Language | None:
    return _BY_SUFFIX.get(suffix_of(path))


def languages_of(paths: Iterable[str]) -> tuple[tuple[Language, int], ...]:
    """Languages with how many of `paths` are written in each, the most frequent first."""
    counts: dict[str, int] = {}
    for path in paths:
        if language := language_of(path):
            counts[language.name] = counts.get(language.name, 0) + 1
    ordered = sorted(counts, key=lambda name: (-counts[name], name))
    return tuple((language, counts[name]) for name in ordered for language in LANGUAGES if language.name == name)


def glob_of(*languages: Language) -> str:
    """Matches the names of files in these languages."""
    bare = [suffix.removeprefix(".") for language in languages for suffix in language.suffixes]
    return f"*.{bare[0]}" if len(bare) == 1 else f"*.{{{','.join(bare)}}}"


def is_test(path: str) -> bool:
    return bool(_TEST.search(path))


def is_aside(path: str) -> bool:
    """In a directory that goes along with a program and is not the program itself."""
    return bool(_ASIDE.search(path))


def is_document(path: str) -> bool:
    return bool(_DOCUMENT.search(path))


def is_readme(path: str) -> bool:
    return bool(_README.search(path))


def is_source(path: str) -> bool:
    """A program's own code: of a known language, and no test."""
    return language_of(path) is not None and not is_test(path)


def depth_of(path: str) -> int:
    return path.count("/")
