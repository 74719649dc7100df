"""Receipts: what a run's tool calls did and which file passages they showed, for the rules of its gate."""

import json
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mcc.contracts.blocks import ToolCall
from mcc.contracts.fence import unfenced
from mcc.contracts.journal import Outcome, ToolFinished, ToolStarted
from mcc.rules.patterns import Pattern, PatternMatch
from mcc.rules.reads import Passage
from mcc.transcript.messages import AssistantMessage, Message, ToolResults, ToolSpec
from mcc.transcript.previews import READ_ARTIFACT

READ_FILE = "read_file"

_HEAD = Pattern(r'^(?P<path>"[^\n]*"|[^"\n][^\n]*), lines (?P<first>\d+)-(?P<last>\d+)(?: of [\d,]+)?, [\d,]+ bytes')
_CUT = " [cut: "
_BARE = Pattern(r"^[^\n]* · lines (?P<first>\d+)-\d+")
"""The head line of `read_file` in journals of earlier versions: the lines below it are not numbered."""

_NO_LINES = Pattern(r"^[^\n]*, (?:empty \(0 bytes\)|image/\w+, \d+ x \d+ pixels, [\d,]+ bytes)\n?$")
"""A whole result of `read_file` for a file without lines."""

_HIT = Pattern(r"^(?P<line>\d+)[:-](?P<text>.*)$", across=True)
_HUNK = Pattern(r"^@@ -(?P<old>\d+)(?:,(?P<olds>\d+))? \+(?P<new>\d+)(?:,(?P<news>\d+))? @@")


def numbered(number: int, line: str) -> str:
    """A line as `read_file` shows it."""
    return f"{number}\t{line}\n"


def head(path: str, first: int, last: int, total: int | None, size: int, notes: Sequence[str] = ()) -> str:
    """The head line above the numbered ones; `path` as written on one line, `size` in bytes."""
    of = f" of {total:,}" if total is not None else ""
    return ", ".join((f"{path}, lines {first}-{last}{of}, {size:,} bytes", *notes)) + "\n"


def cut_mark(missing: int) -> str:
    """The mark at the end of a line of which so many bytes are not shown."""
    return f"{_CUT}{missing:,} more bytes]"


def passages(content: str) -> Iterator[Passage]:
    """The passages in a result of `read_file` without its fence, in order; marks of cut lines are removed."""
    path, first, lines = "", 0, list[str]()
    for line in content.split("\n"):
        number, tab, text = line.partition("\t")
        if tab and number.isdecimal():
            if path and int(number) == first + len(lines):
                lines.append(text.rpartition(_CUT)[0] if text.endswith(" more bytes]") and _CUT in text else text)
            continue
        if lines:
            yield Passage(path, first, tuple(lines))
            path, lines = "", []
        if (heading := _HEAD.match(line)) is not None:
            path, first = _plain(heading["path"]), int(heading["first"])
    if lines:
        yield Passage(path, first, tuple(lines))


def _plain(path: str) -> str:
    """The path that tools write on one line, JSON-quoted where necessary."""
    if not path.startswith('"'):
        return path
    try:
        return str(json.loads(path))
    except ValueError:
        return path


def passages_shown(tool: str, arguments: Mapping[str, object], content: str) -> Iterator[Passage]:
    """The file passages that a call showed, from its journaled result; none for tools that read no files."""
    found = READERS.get(tool)
    return iter(()) if found is None else found(arguments, unfenced(content))


def _read(arguments: Mapping[str, object], content: str) -> Iterator[Passage]:
    found = list(passages(content))
    return iter(found) if found else _bare(arguments, content)


def _bare(arguments: Mapping[str, object], content: str) -> Iterator[Passage]:
    """The passage in a result whose lines are not numbered."""
    path, first = arguments.get("path"), arguments.get("start_line")
    if not isinstance(path, str) or not path or _NO_LINES.match(content):
        return
    head, _, text = content.partition("\n")
    if (known := _BARE.match(head)) is not None:
        yield Passage(path, int(known["first"]), tuple(text.split("\n")))
    else:
        yield Passage(path, first if isinstance(first, int) else 1, tuple(content.split("\n")))


def _searched(arguments: Mapping[str, object], content: str) -> Iterator[Passage]:
    path = ""
    for line in content.split("\n")[1:]:
        if (found := _HIT.match(line)) is not None:
            yield Passage(path, int(found["line"]), (found["text"].strip("…"),))
        elif line != "--":
            path = _plain(line)


def _shown_by_git(arguments: Mapping[str, object], content: str) -> Iterator[Passage]:
    """For each hunk of a patch: new lines, old lines, and the hunk itself; else the file at a ref."""
    lines = content.split("\n")
    if any(map(_HUNK.match, lines)):
        yield from _patched(iter(lines))
    elif isinstance(path := arguments.get("path"), str) and "ref" in arguments and lines[1:]:
        yield Passage(path, 1, tuple(lines[1:]))


def _patched(lines: Iterator[str]) -> Iterator[Passage]:
    path = ""
    for line in lines:
        if line.startswith(("--- ", "+++ ")) and line[4:] != "/dev/null":
            path = _plain(line[4:].rstrip("\t"))[2:]
        elif (hunk := _HUNK.match(line)) is not None:
            yield from _hunk(path, hunk, lines)


def _hunk(path: str, head: PatternMatch, lines: Iterator[str]) -> Iterator[Passage]:
    """The passages of one hunk. Reads as many lines as its head says: lines of content may look like heads."""
    left = {"-": int(head["olds"] or 1), "+": int(head["news"] or 1)}
    sides: dict[str, list[str]] = {"-": [], "+": []}
    both: list[str] = []
    while any(count > 0 for count in left.values()) and (line := next(lines, None)) is not None:
        sign, text = line[:1], line[1:]
        if sign == "\\":
            continue
        both.append(text)
        for side in (sign,) if sign in left else left:
            sides[side].append(text)
            left[side] -= 1
    yield Passage(path, int(head["new"]), tuple(sides["+"]))
    yield Passage(path, int(head["old"]), tuple(sides["-"]))
    yield Passage(path, 0, tuple(both))


Reader = Callable[[Mapping[str, object], str], Iterator[Passage]]

READERS: Mapping[str, Reader] = {
    READ_FILE: _read,
    "search_text": _searched,
    "git_diff": _shown_by_git,
    "git_show": _shown_by_git,
}
"""Finds the passages a tool showed, by tool name."""


@dataclass(frozen=True, slots=True)
class CallReceipt:
    """One finished call.

    `paths`: the normalized paths in its arguments `path` and `paths`; `path`: the first of them, None without any.
    `content`: the result of a tool in `READERS`; `artifact`: digest of the whole where that is shortened. `files`: as
    in `ToolFinished`.
    """

    call_id: str
    tool: str
    arguments: Mapping[str, object]
    ok: bool
    outcome: str
    paths: tuple[str, ...] = ()
    content: str = field(default="", compare=False, repr=False)
    artifact: str | None = field(default=None, compare=False)
    files: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @property
    def path(self) -> str | None:
        return self.paths[0] if self.paths else None

    @classmethod
    def of(cls, call: ToolCall, done: ToolFinished, started: ToolStarted | None = None) -> "CallReceipt":
        """`started`: the call's start, which has its arguments as they were read."""
        sent = call.arguments if started is None else started.arguments
        arguments = sent if isinstance(sent, Mapping) else {}
        listed = arguments.get("paths")
        named = (arguments.get("path"), *(listed if isinstance(listed, list | tuple) else ()))
        return cls(
            call_id=call.call_id,
            tool=call.name,
            arguments=arguments,
            ok=not done.is_error,
            outcome=done.outcome.value,
            paths=tuple(posixpath.normpath(path) for path in named if isinstance(path, str) and path),
            content=done.content if call.name in READERS and not done.is_error else "",
            artifact=done.artifact,
            files=done.files,
        )


def reading(specs: Iterable[ToolSpec]) -> frozenset[str]:
    """Names of the tools that read something: an agent must try one of them before it may report to be blocked."""
    return frozenset(spec.name for spec in specs if spec.only_reads and spec.name != READ_ARTIFACT)


def recalled(messages: Iterable[Message]) -> Iterator[CallReceipt]:
    """The receipts of calls in an earlier part of the conversation, which still count as evidence."""
    asked: dict[str, ToolCall] = {}
    for message in messages:
        match message:
            case AssistantMessage(tool_calls=calls):
                asked.update((call.call_id, call) for call in calls)
            case ToolResults(results):
                for result in results:
                    if call := asked.get(result.call_id):
                        outcome = Outcome.ERROR if result.is_error else Outcome.OK
                        yield CallReceipt.of(
                            call,
                            ToolFinished(
                                call_id=result.call_id,
                                name=result.name,
                                content=result.content,
                                is_error=result.is_error,
                                outcome=outcome,
                            ),
                        )
