"""Texts of strangers that made a reader look at the same characters again and again."""

from collections.abc import Callable

import pytest

from drone.models.failures import refused
from drone.tools.files.manifests import entry_points
from mcc.definitions.agents import parse_agent
from mcc.definitions.front_matter import DefinitionError, YamlProblem
from mcc.definitions.yaml_text import parse
from tests.hostile.growth import grows_faster_than_its_input, seconds


def colon(size: int) -> None:
    with pytest.raises(YamlProblem):
        parse("a: b: " + " " * size + "\n c: d: " + "x" * size + " " * size + "\n")


def spaces_before_a_key(size: int) -> None:
    with pytest.raises(YamlProblem):
        parse(" " * size + '"a": b: c')


def brackets(size: int) -> None:
    with pytest.raises(YamlProblem):
        parse("a: " + "[" * size)


def dockerfile(size: int) -> None:
    list(entry_points("Dockerfile", "CMD" + " \t" * size + "x" + " " * size + "x\n"))
    list(entry_points("Dockerfile", " " * size + "\nCMD " + "\t" * size))


def makefile(size: int) -> None:
    list(entry_points("Makefile", ("a" * 50 + "\t" * 50) * (size // 100) + "\n" + "a:=" * size))


def go_mod(size: int) -> None:
    list(entry_points("go.mod", "module" + " " * size + "\n" + "module\t\n" * size))


def error_page(unit: str) -> Callable[[int], None]:
    def told(size: int) -> None:
        page = (unit * (size // len(unit) + 1))[:size]
        assert len(str(refused("a/b", 502, {}, page.encode(), now=0.0))) < 600

    return told


WORK: dict[str, Callable[[int], None]] = {
    "a value with a colon": colon,
    "a key behind blanks": spaces_before_a_key,
    "brackets": brackets,
    "Dockerfile": dockerfile,
    "Makefile": makefile,
    "go.mod": go_mod,
    **{f"error page of {unit!r}": error_page(unit) for unit in ("<title", "<title>", "<script", "<", "bearer ", "sk-")},
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_time_grows_with_the_text_and_not_faster(work: Callable[[int], None]) -> None:
    assert not grows_faster_than_its_input(work, 16_000)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", "CMD" + " " * 32_000 + "\n"),
        ("Dockerfile", "CMD x" + " " * 32_000 + "y"),
        ("Dockerfile", " " * 32_000),
    ],
)
def test_a_dockerfile_of_32_kb_is_read_at_once(name: str, text: str) -> None:
    assert seconds(lambda: list(entry_points(name, text))) < 0.5


def test_an_agent_file_of_16_kb_with_a_mistake_is_told_at_once() -> None:
    text = "---\n" + " " * 16_000 + '"name": b: c\n---\nDo it.'

    def read() -> None:
        with pytest.raises(DefinitionError):
            parse_agent(text, "x.md")

    assert seconds(read) < 0.5


@pytest.mark.parametrize("size", [200_000, 240_000])
def test_an_agent_file_beyond_the_bound_is_refused_before_it_is_parsed(size: int) -> None:
    guidelines = "".join(f"- g{number}\n" for number in range(size // 8))
    text = f"---\nname: x\nguidelines:\n{guidelines}---\nDo it."

    def read() -> None:
        with pytest.raises(DefinitionError, match="32 KB at most"):
            parse_agent(text, "x.md")

    assert seconds(read) < 0.1


def test_an_error_page_of_63_kb_is_told_at_once() -> None:
    page = b"<title>" + b"<title" * 10_500
    assert seconds(lambda: refused("a/b", 502, {}, page, now=0.0)) < 0.1
