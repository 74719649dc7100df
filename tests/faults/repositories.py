"""Orders that write in one repository: what their model says, and what must be in its files afterwards.

Each adds lines to a tally that others write as well: it reads the file, and writes it whole with one line more. A line
that was written successfully, and is not there any more, was overwritten; it is not written again. Beside that each
order changes files that are its own.

    prompt = Deed("a", "edit").prompt     # the model's replies follow from the messages, see `deed_step`
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

from tests.faults.script import Step, Wanted, text_of

AGENT = "editor"
TALLY, BEGUN = "tally.txt", "begun\n"
DONE = "All lines are written."
READ, WRITE, DELETE, SHELL = "read_file", "write_file", "delete_file", "run_shell"
ASKED_FOR = DELETE
"""The tool that a person must allow."""

_MARK = re.compile(r"\[\[deed (\{[^}]*\})\]\]")
_LINE = re.compile(r"(?m)^\d+\t([a-z0-9-]+)$")
_DID = re.compile(r"(?m)^did ([a-z0-9-]+)$")

Picture = Mapping[str, bytes]
"""The files of a repository by their paths, without what git and MCC keep there."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What one order does: `rounds` lines into the `tally`, with tools or with commands.

    `asks`: half-way it deletes a file, for which a person must be asked. `slow_seconds`: between reading and writing
    of a command.
    """

    name: str
    how: Literal["edit", "shell"]
    rounds: int = 3
    tally: str = TALLY
    asks: bool = False
    slow_seconds: float = 0.1

    @property
    def prompt(self) -> str:
        return f"Write your lines. [[deed {json.dumps(asdict(self))}]]"

    @classmethod
    def of(cls, text: str) -> "Deed | None":
        """The deed that a text carries; None when it carries none."""
        found = _MARK.search(text)
        return None if found is None else cls(**json.loads(found[1]))

    @property
    def lines(self) -> Sequence[str]:
        return [f"{self.name}-{number}" for number in range(1, self.rounds + 1)]

    @property
    def file(self) -> str:
        """Its own file, which holds its newest line."""
        return f"own/{self.name}.txt"

    @property
    def spare(self) -> str:
        """The file that it deletes."""
        return f"own/{self.name}.old"

    def wanted(self, line: str, seen: Sequence[str]) -> Sequence[Wanted]:
        """The calls that add this line to a tally that was `seen` so."""
        if self.how == "shell":
            draft, tally = f".draft-{self.name}", self.tally
            command = (
                f"grep -qx {line} {tally} || {{ cp {tally} {draft} && sleep {self.slow_seconds:g} && "
                f"echo {line} >> {draft} && mv {draft} {tally}; }} && echo {line} > {self.file} && echo did {line}"
            )
            return [Wanted(SHELL, {"command": command, "timeout_seconds": 60.0})]
        whole = "".join(f"{one}\n" for one in (*seen, line))
        return [
            Wanted(WRITE, {"path": self.tally, "content": whole}),
            Wanted(WRITE, {"path": self.file, "content": f"{line}\n"}),
        ]


def furnish(root: Path, deeds: Iterable[Deed]) -> None:
    """The files that are there before any order of this repository begins: some orders find a file of their own."""
    (root / "own").mkdir(parents=True, exist_ok=True)
    (root / TALLY).write_text(BEGUN)
    for number, deed in enumerate(deeds):
        if number % 2:
            (root / deed.file).write_bytes(f"before {deed.name}\r\n".encode())
        if deed.asks:
            (root / deed.spare).write_bytes(bytes(range(256)))


def picture(root: Path) -> Picture:
    """What is in the files of a repository, those of repositories inside included."""
    hidden = {".git", ".mcc-workspace"}
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and not hidden.intersection(path.parts))
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def deed_step(request: Mapping[str, Any]) -> Step | None:
    """What the model says to this request, in the format of chats; None when its order has no deed."""
    messages: Sequence[Mapping[str, Any]] = request.get("messages") or ()
    said = (text_of(message.get("content")) for message in messages if message.get("role") == "user")
    deed = next((one for text in said if (one := Deed.of(text))), None)
    if deed is None:
        return None
    calls = list(_calls(messages))
    last = [name for name, _, _ in calls[-1:]]
    seen = next((_lines(said) for name, path, said in reversed(calls) if name == READ and path == deed.tally), None)
    if seen is None or last != [READ]:
        return Step("", tuple(Wanted(READ, {"path": path}) for path in (deed.file, deed.tally)))
    written = {line for name, path, said in calls for line in _written(deed, name, path, said)}
    missing = [line for line in deed.lines if line not in written and line not in seen]
    if deed.asks and len(missing) <= deed.rounds // 2 and not any(name == DELETE for name, _, _ in calls):
        return Step("", (Wanted(DELETE, {"path": deed.spare}),))
    return Step("", tuple(deed.wanted(missing[0], seen))) if missing else Step(DONE)


def _calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """(tool, what it was called with, result) of each call that has one."""
    said = {str(one.get("tool_call_id")): str(one.get("content")) for one in messages if one.get("role") == "tool"}
    for message in messages:
        for call in message.get("tool_calls") or ():
            arguments = json.loads(call["function"]["arguments"])
            argument = "\n".join(str(arguments.get(name, "")) for name in ("path", "content")).strip()
            if call["id"] in said:
                yield call["function"]["name"], argument, said[call["id"]]


def _lines(shown: str) -> Sequence[str]:
    """The lines of a file as `read_file` shows it."""
    return _LINE.findall(shown)


def _written(deed: Deed, name: str, argument: str, said: str) -> Iterator[str]:
    """The line of the deed that a call has written by its own result."""
    if name == SHELL and (did := _DID.search(said)):
        yield did[1]
    path, _, content = argument.partition("\n")
    if name == WRITE and path == deed.tally and f"\n{path}: " in f"\n{said}":
        yield content.splitlines()[-1]


def overwritten(deeds: Iterable[Deed], tally: bytes) -> list[str]:
    """What is wrong with a tally into which all these deeds were done: each line must be there once."""
    there = tally.decode().splitlines()
    wanted = [*BEGUN.splitlines(), *(line for deed in deeds for line in deed.lines)]
    lost = [f"the line {line} was overwritten" for line in wanted if line not in there]
    twice = [
        f"the line {line} is there {there.count(line)} times" for line in dict.fromkeys(there) if there.count(line) > 1
    ]
    strange = [f"nobody wrote the line {line!r}" for line in there if line not in wanted]
    return [*lost, *twice, *strange]


def wrongly_reverted(
    deed: Deed, first: Picture, before: Picture, after: Picture, named: Sequence[str] | None
) -> list[str]:
    """What is wrong with a revert: `first` before all orders, `before` and `after` it; `named` are the paths that it
    found changed by somebody else, None if it reverted all."""
    lines = before[deed.tally].decode().splitlines(keepends=True)
    own = [number for number, line in enumerate(lines) if line.rstrip("\n") in deed.lines]
    is_last = own == list(range(len(lines) - len(own), len(lines)))
    if named is not None:
        wrong = _unlike(before, after)
        wrong += [] if list(named) == [deed.tally] else [f"it names {', '.join(named) or 'nothing'}"]
        return [*wrong, *(["it was refused, although nobody wrote after it"] if is_last else [])]
    wanted = {**before, deed.tally: "".join(lines[: len(lines) - len(own)]).encode()}
    for path in (deed.file, deed.spare):
        wanted.pop(path, None)
        wanted.update({path: first[path]} if path in first else {})
    return [*([] if is_last else ["it overwrote what others wrote later"]), *_unlike(wanted, after)]


def _unlike(wanted: Picture, there: Picture) -> list[str]:
    different = sorted(path for path in wanted.keys() | there.keys() if wanted.get(path) != there.get(path))
    return [f"{path} is {there.get(path)!r:.60} and not {wanted.get(path)!r:.60}" for path in different]


def interrupted(deed: Deed, tally: bytes) -> bool:
    """Whether others wrote between two lines of this deed."""
    runs = [mine for mine, _ in groupby(tally.decode().splitlines(), lambda line: line in deed.lines)]
    return runs.count(True) > 1
