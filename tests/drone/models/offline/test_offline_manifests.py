"""Build files: products, build commands and test commands."""

import pytest

from drone.models.offline.manifests import Manifest, manifest
from drone.models.offline.tool_output import Page


def read(path: str, text: str) -> Manifest:
    return manifest(path, Page(tuple(text.split("\n"))))


@pytest.mark.parametrize(
    ("path", "text", "name", "builds", "tests"),
    [
        ("configure.ac", "AC_INIT([frob], [1.2])", "frob", ("autoreconf -i && ./configure && make",), ()),
        (
            "CMakeLists.txt",
            "project(frob C)\nenable_testing()",
            "frob",
            ("cmake -B build && cmake --build build",),
            ("ctest --test-dir build",),
        ),
        (
            "meson.build",
            "project('frob', 'c')",
            "frob",
            ("meson setup build && meson compile -C build",),
            ("meson test -C build",),
        ),
        (
            "pom.xml",
            "<parent><artifactId>above</artifactId></parent><artifactId>frob</artifactId>",
            "frob",
            ("mvn package",),
            ("mvn test",),
        ),
        ("go.mod", "module example.org/frob", "example.org/frob", ("go build ./...",), ("go test ./...",)),
        ("Cargo.toml", '[package]\nname = "frob"', "frob", ("cargo build",), ("cargo test",)),
        (
            "package.json",
            '{"name": "frob", "scripts": {"build": "tsc", "test": "jest"}}',
            "frob",
            ("npm install && npm run build",),
            ("npm test (`jest`)",),
        ),
        (
            "pyproject.toml",
            '[project]\nname = "frob"\n[tool.pytest.ini_options]',
            "frob",
            ("pip install -e .",),
            ("pytest",),
        ),
    ],
)
def test_a_build_file_says_how_to_build_and_to_test(
    path: str, text: str, name: str, builds: tuple[str, ...], tests: tuple[str, ...]
) -> None:
    found = read(path, text)
    assert (found.name, found.builds, found.tests) == (name, builds, tests)


def test_automake_programs_and_libraries_are_distinguished() -> None:
    found = read("src/Makefile.am", "bin_PROGRAMS = frob \\\n  frobd\nlib_LTLIBRARIES = libfrob.la\nTESTS = t.sh\n")
    assert found.starts == (
        "program `frob` (from `src/`)",
        "program `frobd` (from `src/`)",
        "library `libfrob.la` (from `src/`)",
    )
    assert found.tests == ("make check",)
