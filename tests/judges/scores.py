"""What the judges say, as a table: a row for each, how many of its tests passed, and whether a row got worse."""

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pytest

import mcc

TABLE = Path(__file__).parents[2] / "docs" / "judges.md"
OURS = "cut doors"
"""The one judge that is no package: its version is ours."""

JUDGES: Mapping[str, str] = {
    "compaction-conformance-kit": "what summaries of summaries still know, and what is found again by its question",
    "crashresume": "the library, killed after each of its effects and resumed",
    "standardwebhooks": "signatures of webhooks: of those that we send, and of those that we take",
    OURS: "each door, its connections cut at random bytes and its service killed: one order a key, one end each",
}
"""Each judge, and what it judges. A module of tests says whose it is by its name `JUDGE`."""

HEAD = """# What judges say

`make judges` writes this table, offline and with scripted models, and fails where a row got worse. A red row has tests
that fail. All of them are from outside but the last. What each test asks: `tests/judges`.

| judge | what it judges | version | passed/all |
| --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Score:
    """Of the tests of one judge."""

    judge: str
    version: str
    passed: int
    all: int

    @property
    def row(self) -> str:
        count = f"{self.passed}/{self.all}"
        shown = count if self.passed == self.all else f"🔴 {count}"
        return f"| `{self.judge}` | {JUDGES[self.judge]} | {self.version} | {shown} |"

    def is_worse_than(self, before: "Score") -> bool:
        return self.passed < before.passed or self.all - self.passed > before.all - before.passed


@dataclass
class Scores:
    """A plugin of pytest that counts. A test that was skipped has not passed."""

    ends: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """By test: its judge, and whether it passed."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        judge = getattr(getattr(item, "module", None), "JUDGE", None)
        if judge is not None:
            passed = self.ends.get(item.nodeid, (judge, True))[1] and report.passed
            self.ends[item.nodeid] = judge, passed
        return report

    def scores(self) -> Sequence[Score]:
        every, passed = (
            Counter(judge for judge, _ in self.ends.values()),
            Counter(judge for judge, is_passed in self.ends.values() if is_passed),
        )
        return [Score(judge, version_of(judge), passed[judge], every[judge]) for judge in JUDGES if judge in every]


def version_of(judge: str) -> str:
    if judge == OURS:
        return mcc.__version__
    try:
        return version(judge)
    except PackageNotFoundError:
        return "not installed"


def page(scores: Sequence[Score]) -> str:
    return HEAD + "".join(f"{score.row}\n" for score in scores)


def read(text: str) -> Sequence[Score]:
    """The scores of a page."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip(" `🔴") for cell in line.strip("|").split("|")]
        if len(cells) == 4 and cells[0] in JUDGES:
            passed, _, count = cells[3].partition("/")
            found.append(Score(cells[0], cells[2], int(passed), int(count)))
    return found


def judged(before: Sequence[Score], now: Sequence[Score]) -> tuple[Sequence[Score], Sequence[str]]:
    """The scores of the new page, in which a judge that was not asked keeps its row; and what got worse, in words."""
    known = {score.judge: score for score in before}
    worse = [
        f"{score.judge}: {score.passed}/{score.all}, and {known[score.judge].passed}/{known[score.judge].all} before"
        for score in now
        if score.judge in known and score.is_worse_than(known[score.judge])
    ]
    known |= {score.judge: score for score in now}
    return [known[judge] for judge in JUDGES if judge in known], worse
