"""What gives a source file away: its language, where such programs begin, how they name things."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from mcc.rules.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Language:
    """One language, in RE2. `entry`: where a program begins, `public`: what others may use, `imports`: what it uses.

    `imports` is empty where such lines do not tell files.
    """

    name: str
    suffixes: tuple[str, ...]
    entry: str
    public: str
    fronts: tuple[str, ...] = ()
    """Names of files that stand for their directory."""

    imports: str = ""


_JS_IMPORTS = r"\b(from|import|require)\s*\(?\s*[\"'][.][^\"']*[\"']"
_C_IMPORTS = r"^\s*#\s*include\s*[<\"][^>\"]+[>\"]"

LANGUAGES: tuple[Language, ...] = (
    Language(
        "Python",
        (".py",),
        r"^if __name__ ==|^(async )?def main\(",
        r"^(class|def|async def) [A-Za-z]",
        ("__init__.py", "__main__.py", "main.py", "app.py", "cli.py", "core.py"),
        r"^\s*(from\s+[.\w]+\s+import\s|import\s+\w)",
    ),
    Language(
        "Rust",
        (".rs",),
        r"^\s*(pub )?(async )?fn main\(",
        r"^\s*pub (async )?(fn|struct|enum|trait|mod) ",
        ("lib.rs", "main.rs", "mod.rs"),
        r"^\s*(pub(\([a-z]+\))?\s+)?(use\s+(crate|super|self)::|mod\s+\w+\s*;)",
    ),
    Language(
        "Go",
        (".go",),
        r"^func main\(",
        r"^(func|type) (\([^)]*\) )?[A-Z]",
        ("doc.go", "main.go"),
        r"^\s*(import\s+)?([\w.]+\s+)?\"[\w.-]+\.[\w.-]+/[^\"]*\"\s*(//.*)?$",
    ),
    Language(
        "TypeScript",
        (".ts", ".tsx", ".mts"),
        r"^#!.*\bnode\b|^[^*/]*\.listen\(|require\.main === module",
        r"^export ",
        ("index.ts", "main.ts", "index.tsx", "app.ts", "cli.ts"),
        _JS_IMPORTS,
    ),
    Language(
        "JavaScript",
        (".js", ".mjs", ".cjs", ".jsx"),
        r"^#!.*\bnode\b|^[^*/]*\.listen\(|require\.main === module",
        r"^(export |module\.exports|exports\.)",
        ("index.js", "main.js", "app.js", "cli.js", "index.mjs", "server.js"),
        _JS_IMPORTS,
    ),
    Language(
        "Java",
        (".java",),
        r"public static void main\(",
        r"^\s*(public|protected) ",
        ("Main.java",),
        r"^import (static )?[\w.]+",
    ),
    Language("Kotlin", (".kt", ".kts"), r"^fun main\(", r"^(class|fun|object|interface|data class) ", ("Main.kt",)),
    Language(
        "C",
        (".c", ".h"),
        r"^\s*(int\s+|void\s+)?main\s*\(",
        r"^[a-z].*\w\(.*\)\s*\{?$|^(class|struct|namespace) \w",
        ("main.c",),
        _C_IMPORTS,
    ),
    Language(
        "C++",
        (".cpp", ".cc", ".cxx", ".hpp"),
        r"^\s*(int\s+|void\s+)?main\s*\(",
        r"^(class|struct|namespace) ",
        ("main.cpp",),
        _C_IMPORTS,
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
    "configure.ac",
    "CMakeLists.txt",
    "meson.build",
    "Makefile.am",
    "Makefile",
    "tox.ini",
    "Dockerfile",
)
"""Files that say what a project is and how it is built, the most telling first."""

_C, _NODE, _JVM = ("C", "C++"), ("JavaScript", "TypeScript"), ("Java", "Kotlin")
_BUILT_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pyproject.toml", "setup.py", "setup.cfg"), ("Python",)),
    **dict.fromkeys(("pom.xml", "build.gradle", "build.gradle.kts"), _JVM),
    **dict.fromkeys(("configure.ac", "CMakeLists.txt", "meson.build", "Makefile.am"), _C),
    "package.json": _NODE,
    "Cargo.toml": ("Rust",),
    "go.mod": ("Go",),
    "composer.json": ("PHP",),
    "Gemfile": ("Ruby",),
    "mix.exs": ("Elixir",),
}
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


def main_languages(paths: Iterable[str], build_files: Iterable[str] = ()) -> tuple[Language, ...]:
    """The languages that a program is written in, at most three: those with a tenth of its sources each.

    Only such as the build files in its root are for, where there are any: a script here and there is no part of it.
    """
    counted = languages_of(paths)
    built = {name for path in build_files for name in _BUILT_BY.get(path, ())}
    known = [(language, count) for language, count in counted if language.name in built]
    known = known or [(language, count) for language, count in counted if language.name != "Shell"] or list(counted)
    total = sum(count for _, count in known)
    return tuple(language for language, count in known if count * 10 >= total)[:3]


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
