"""Every edge at which people read what agents, models, tools and files wrote: all of it is there, and nothing raw.

| edge | here |
| --- | --- |
| `mcc inbox`, `mcc inbox ID`, `mcc grants list`, `mcc orders list, show, watch, record`, sessions, notes | `PRINTING` |
| each of them with `--json` | `PRINTING`, and `JSON_OF_THE_API` for the service's own |
| the prompts of `mcc run` and `drone run` | `test_what_is_asked_at_the_terminal` |
| the live tree and its last picture, plain lines, of orders and generations | `test_the_tree`, `test_plain_lines` |
| denials | `test_a_denial_names_the_command_as_it_is` |
| documents and blueprints | `test_documents`, `test_blueprints` |
| exported pages and Markdown | `test_exports` |
| answers rendered on a terminal | `test_an_answer_is_rendered_and_nothing_of_it_is_left_out` |
| logs, as JSON and on a terminal | `tests/mcc/test_process_logs.py` |
| tables, pairs, sentences | `test_whoever_prints_escapes_once` |
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from drone.local_run import AtTerminal
from mcc.cli.command import print_markdown, print_pairs, print_table, say
from mcc.cli.main import app
from mcc.contracts.approvals import ApprovalItem, QuestionItem
from mcc.contracts.blueprints import BlueprintSpec
from mcc.contracts.callers import Actor
from mcc.contracts.documents import DocumentDiff, HistoryItem, NodeView
from mcc.contracts.entry import Origin
from mcc.contracts.ids import call_id
from mcc.contracts.inbox_facts import ApprovalRequested, QuestionAsked, ShownPreview
from mcc.contracts.invisible import escape_invisible, unescape_invisible
from mcc.contracts.journal import AgentStarted, ControlApplied, ToolFinished, ToolStarted
from mcc.contracts.limits import LimitChoice
from mcc.contracts.model_facts import ModelRetried
from mcc.contracts.notes import NewNote
from mcc.contracts.order import NewOrder
from mcc.contracts.permission import PermissionRule, SavedRule, Why
from mcc.contracts.record import ModelChoice
from mcc.documents.inert import in_html, in_markdown
from mcc.permission.judging import PermissionRequest, judge
from mcc.permission.layers import Layer
from mcc.store.work.notes import Writing
from mcc.testing import temporary_store
from mcc.testing.hand_drone import HandDrone
from mcc.testing.served import TOKEN, Served
from mcc.view import generation_tree
from mcc.view.blueprints import lines_of
from mcc.view.documents import diff_lines, history_row, node_lines, tree_lines
from mcc.view.generation import GenerationStory
from mcc.view.inbox import in_full
from mcc.view.lines import Lines
from mcc.view.screens import Shown, screen
from mcc.view.story import Story
from mcc.view.tree import OrderPicture
from tests.mcc.cli.in_process import CliRunner
from tests.mcc.contracts.document_samples import DOCUMENTS, NODE

NASTY = "o\x1b]0;x\x07d\x1bP1\x9c\x1b_G\u202ex\U000e0041\u200b\ufe0f\u2028\x85⟦U+0041⟧e"
"""A title, a device control string and an application command, none of them ended well; a change of direction, a tag, a
zero width, a variation selector, line ends that are none, and an escape that is meant literally."""

SEEN = escape_invisible(NASTY)
IN_JSON = json.dumps(NASTY)
BEGINNING = SEEN[:30]
AT = datetime(2026, 1, 31, 12, tzinfo=UTC)
CHILD = "0190c9a2-0000-7000-8000-0000000000aa"


def is_clean(shown: str) -> bool:
    """Whether nothing raw is in it, the codes of colours apart, which are ours."""
    return all(one.isprintable() or one in "\n\t" for one in shown) and "\ufe0f" not in shown


ASKED = ApprovalRequested(
    approval_id="app-1",
    call_id="c1",
    tool=f"tool{NASTY}",
    arguments={"command": NASTY, f"key{NASTY}": [NASTY]},
    profile=f"profile {NASTY}",
    workspace=f"/srv/{NASTY}",
    digest="sha256:0",
    preview=ShownPreview(kind="text", text=f"$ {NASTY}\n[at most 120 s]", hidden=11),
    why=Why(layer="operator", key=f"key {NASTY}", when=f"rule {NASTY}", message=f"message {NASTY}"),
    again=f"again {NASTY}",
    would_save=SavedRule(key="run_shell", when=f"saved {NASTY}"),
)
QUESTION = QuestionAsked(
    question_id="que-1",
    call_id="c2",
    question=f"question {NASTY}\nsecond {NASTY}",
    choices=(f"choice {NASTY}",),
    default=f"default {NASTY}",
)
FACTS = (
    ToolStarted(
        call_id="t1", round=1, index=0, name="run_tool", arguments={"command": f"cmd {NASTY}"}, idempotent=False
    ),
    ToolFinished(call_id="t1", name="run_tool", content=f"denied {NASTY}", is_error=True),
    ModelRetried(round=1, attempt=1, model=f"model {NASTY}", error=f"error {NASTY}", wait_seconds=1.0),
    ControlApplied(control_id="c", control="steer", mode="inject", message=f"steer {NASTY}"),
)


def child() -> AgentStarted:
    return AgentStarted(
        title=f"title {NASTY}",
        prompt=NASTY,
        model=ModelChoice(requested="offline", effective="offline \u202e"),
        tools=(),
        limits=LimitChoice(),
        definition_digest="",
        setup_digest="",
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Mapping[str, str]]]:
    """A service with an order that is hostile wherever text can be, and the ids of what it has."""
    store = temporary_store()
    made = store.orders.place(NewOrder(prompt=f"prompt {NASTY}"), by=Actor(f"principal {NASTY}")).order
    held = HandDrone(store).claim(made.id)
    held.start()
    held.write(child(), origin=Origin(record_id=CHILD, parent_id=held.master.record_id, agent="scout", depth=1))
    held.write(*FACTS, ASKED, QUESTION)
    writing = Writing(held.id, held.claim.epoch, held.master, call_id(held.id, 1, 0), "project", f"/srv/{NASTY}")
    store.notes.write(writing, NewNote(kind="memory", name="build", text=f"note {NASTY}"))
    with Served(store, tmp_path_factory.mktemp("service")) as service:
        yield service, {"ORDER": made.id, "SESSION": made.session_id}
    store.close()


ARGUMENTS = ("tool", "command: ", "key", "profile ", "/srv/", "$ ", "rule ", "message ", "again ", "saved ")
PRINTING = {
    "inbox": (),
    "inbox --json": ("$ ", "question ", "choice ", "saved "),
    "inbox app-1": ARGUMENTS,
    "inbox app-1 --json": ARGUMENTS[3:],
    "inbox que-1": ("question ", "│ second ", "choice ", "default "),
    "orders list": ("prompt ",),
    "orders list --json": ("prompt ",),
    "orders show ORDER": ("prompt ",),
    "orders show ORDER --json": ("prompt ",),
    "orders record ORDER": ("prompt ", "title ", "denied "),
    "sessions list": (),
    "sessions list --json": (),
    "sessions show SESSION": ("prompt ",),
    "sessions show SESSION --json": ("prompt ",),
    "notes list": ("note ", "/srv/"),
    "notes list --json": ("note ", "/srv/"),
    "notes show build": ("note ",),
}


@pytest.mark.parametrize("command", PRINTING)
def test_a_command_shows_all_of_it_and_nothing_raw(
    served: tuple[Served, Mapping[str, str]], tmp_path: Path, command: str
) -> None:
    service, ids = served
    environment = {"MCC_URL": service.url, "MCC_TOKEN": TOKEN, "MCC_DATA_DIR": str(tmp_path)}
    done = CliRunner().invoke(app, [ids.get(word, word) for word in command.split()], env=environment)
    assert done.exit_code == 0, done.output
    assert is_clean(done.stdout) and is_clean(done.stderr)
    as_json = command.endswith("--json") or " record " in command
    told = json.dumps(json.loads(done.stdout), ensure_ascii=False) if as_json else done.stdout + done.stderr
    for before in PRINTING[command]:
        whole = json.dumps(f"{before}{NASTY}", ensure_ascii=False)[1:-1] if as_json else f"{before}{SEEN}"
        assert whole in told, before
    if command.startswith("sessions list"):
        # The title of a session is made of the words of its first prompt.
        assert (
            (f"prompt {NASTY[:12]}" in json.loads(done.stdout)["items"][0]["title"]) if as_json else BEGINNING in told
        )
    if command == "inbox":
        assert f"tool{BEGINNING}" in told and f"question {BEGINNING}" in told


JSON_OF_THE_API = ("inbox", "approvals", "questions")


@pytest.mark.parametrize("path", JSON_OF_THE_API)
def test_json_of_the_service_is_exact_and_shows_everything(served: tuple[Served, Mapping[str, str]], path: str) -> None:
    service, _ = served
    answer = httpx.get(f"{service.url}/api/v1/{path}", headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False)
    assert is_clean(answer.text) and "\\u202e" in answer.text and "\\udb40\\udc41" in answer.text
    texts = json.dumps(answer.json(), ensure_ascii=False)
    assert json.dumps(NASTY, ensure_ascii=False)[1:-1] in texts


def test_an_approval_that_stands_is_listed_whole(tmp_path: Path) -> None:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt="Go."), by=Actor("operator")).order
    held = HandDrone(store).claim(order.id)
    held.start()
    rule = SavedRule(key="run_shell", when=f"{'x' * 1_900} saved {NASTY}")
    held.write(ASKED.model_copy(update={"would_save": rule, "workspace": "/srv"}))
    with Served(store, tmp_path / "data") as service:
        environment = {"MCC_URL": service.url, "MCC_TOKEN": TOKEN, "MCC_DATA_DIR": str(tmp_path)}
        outputs = []
        for command in ("orders approve app-1 --remember order", "grants list", "grants list --json"):
            done = CliRunner().invoke(app, command.split(), env=environment)
            assert done.exit_code == 0 and is_clean(done.output), done.output
            outputs.append(done.stdout)
        head = {"Authorization": f"Bearer {TOKEN}"}
        answer = httpx.get(f"{service.url}/api/v1/grants", headers=head, trust_env=False)
        assert is_clean(answer.text) and answer.json()["items"][0]["when"] == rule.when
        assert f"saved {SEEN}" in outputs[1] and json.loads(outputs[2])["items"][0]["when"] == rule.when
    store.close()


def item() -> ApprovalItem:
    place: dict[str, Any] = {"id": "app-1", "order_id": "o", "record_id": None, "agent": f"agent {NASTY}", "depth": 1}
    fields = {name: getattr(ASKED, name) for name in type(ASKED).model_fields if name != "approval_id"}
    return ApprovalItem.model_validate({**fields, **place, "status": "pending", "requested_at": AT})


def question() -> QuestionItem:
    place: dict[str, Any] = {"id": "que-1", "order_id": "o", "record_id": None, "agent": "a", "depth": 0}
    fields = {
        name: getattr(QUESTION, name) for name in type(QUESTION).model_fields if name in QuestionItem.model_fields
    }
    return QuestionItem.model_validate({**fields, **place, "status": "pending", "requested_at": AT})


async def test_what_is_asked_at_the_terminal_is_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []

    def read(prompt: str, is_over: Callable[[], bool]) -> str | None:
        prompts.append(prompt)
        return "y"

    for one in (item(), question()):
        await AtTerminal(nullcontext, read)(one)
    shown = capsys.readouterr().err
    joined = " ".join(shown.split())
    assert is_clean(shown) and all(map(is_clean, prompts))
    assert all(" ".join(f"{before}{SEEN}".split()) in joined for before in (*ARGUMENTS, "agent ", "second ", "choice "))
    assert any(f"(default {SEEN})" in prompt for prompt in prompts)
    assert "[it holds 11 characters that nobody sees" in shown


async def test_v_shows_what_drone_run_kept_of_a_cut_preview(capsys: pytest.CaptureFixture[str]) -> None:
    cut = item().model_copy(update={"preview": ShownPreview(kind="text", text="head", artifact="d", sha256="d")})
    typed = iter(("v", "y"))
    await AtTerminal(nullcontext, lambda *_: next(typed), {"d": f"head {NASTY} tail"}.get)(cut)
    assert capsys.readouterr().err.count(f"head {SEEN} tail") == 1


def test_a_preview_is_read_off_what_is_shown() -> None:
    lines = in_full(item()).split("\n")
    start = next(at for at, line in enumerate(lines) if line.startswith("$ "))
    assert unescape_invisible("\n".join(lines[start : start + 2])) == f"$ {NASTY}\n[at most 120 s]"


@pytest.fixture(scope="module")
def entries() -> Iterator[list[Any]]:
    store = temporary_store()
    order = store.orders.place(NewOrder(prompt="Go."), by=Actor("operator")).order
    held = HandDrone(store).claim(order.id)
    held.start()
    held.write(child(), origin=Origin(record_id=CHILD, parent_id=held.master.record_id, agent=f"s{NASTY}", depth=1))
    held.write(*FACTS, ASKED, QUESTION)
    yield list(store.journal.read(order.id))
    store.close()


def test_plain_lines_show_all_of_it(entries: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    told = Lines()
    lines = [line for entry in entries if (line := told.line_of(entry))]
    with screen(Shown.ALL) as onto:
        for entry in entries:
            onto.show(entry)
    assert capsys.readouterr().err.splitlines() == lines
    assert all(map(is_clean, lines)) and not any("\n" in line for line in lines)
    for before in ("title ", "cmd ", "denied ", "steer ", "s"):
        assert any(f"{before}{SEEN}" in line for line in lines), before
    assert any(f"asks: question {BEGINNING}" in line for line in lines)


@pytest.mark.parametrize("story", [Story(), GenerationStory()], ids=["order", "generation"])
def test_the_tree_shows_it(entries: list[Any], story: Story) -> None:
    for entry in entries:
        story.add(entry)
    story.add_delta(CHILD, "model.delta", f"speech {NASTY}")
    drawn = generation_tree.picture(story, AT) if isinstance(story, GenerationStory) else OrderPicture(story, AT)
    console = Console(file=io.StringIO(), width=4_000)
    console.print(drawn)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert is_clean(shown)
    if not isinstance(story, GenerationStory):
        for before in ("title ", "cmd ", "steer "):
            assert f"{before}{BEGINNING}" in shown, before


def test_a_denial_names_the_command_as_it_is() -> None:
    layer = Layer("operator", {"run_shell": (PermissionRule(then="deny", when='argv[0] == "echo"'),)})
    command = "echo 'a\u202e\u200bb'"
    ruling = judge(PermissionRequest("run_shell", arguments={"command": command}), [layer])
    assert ruling.word == "deny" and "echo a\u202e\u200bb" in ruling.message
    assert "echo a⟦U+202E⟧⟦U+200B⟧b" in escape_invisible(ruling.message)


def test_documents_show_all_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    node = NODE.model_copy(
        update={
            "path": f"/path{NASTY}",
            "summary": f"sum {NASTY}",
            "props": {f"name{NASTY}": f"value {NASTY}", "list": [f"inner {NASTY}"]},
            "component": f"component{NASTY}",
            "stale_because": (f"because {NASTY}",),
        }
    )
    node = NodeView.model_validate(node.model_dump())
    lines = [*tree_lines([node]), *node_lines(node)]
    diff = DOCUMENTS["document-diff"]
    assert isinstance(diff, DocumentDiff)
    fields = {"f": (f"was {NASTY}", f"is {NASTY}")}
    changed = diff.nodes[0].model_copy(update={"path": f"/new{NASTY}", "fields": fields})
    lines += diff_lines(diff.model_copy(update={"nodes": (changed,)}))
    history = DOCUMENTS["history-item"]
    assert isinstance(history, HistoryItem)
    history = history.model_copy(update={"fields": {"f": (None, f"after {NASTY}")}})
    print_table(("A",) * 5, [history_row(history)], empty="")
    lines += capsys.readouterr().out.splitlines()
    assert all(map(is_clean, lines)) and not any("\n" in line for line in lines)
    for before in ("path", "name", "value ", "component", "new", "was ", "is ", "after "):
        assert any(f"{before}{BEGINNING}" in line for line in lines), before
    assert any(f'["inner {BEGINNING[:1]}' in line for line in lines)


def test_blueprints_show_all_of_it() -> None:
    content = {
        "blueprint": "course",
        "version": 1,
        "root": "course",
        "components": {
            "course": {
                "description": f"about {NASTY}",
                "properties": {"level": {"type": "text", "description": f"field {NASTY}"}},
            }
        },
    }
    lines = list(lines_of(BlueprintSpec.model_validate(content)))
    assert all(map(is_clean, lines))
    assert any(f"about {SEEN}" in line for line in lines) and any(f"field {SEEN}" in line for line in lines)


def test_exports_show_all_of_it() -> None:
    for made in (in_html(NASTY), in_markdown(NASTY)):
        assert is_clean(made.replace("\ufe0f", "")), "of typography, the styles of emoji stay"
        for escape in ("⟦U+001B⟧", "⟦U+0007⟧", "⟦U+202E⟧", "⟦U+E0041⟧", "⟦U+200B⟧", "⟦U+2028⟧"):
            assert escape in made or escape.replace("[", "\\[") in made


def test_whoever_prints_escapes_once(capsys: pytest.CaptureFixture[str]) -> None:
    say(NASTY)
    print_pairs([("name", f"{NASTY}\nstatus  succeeded")])
    print_table(("A", "B"), [(NASTY, NASTY)], empty="")
    shown = capsys.readouterr()
    assert shown.err == f"{SEEN}\n"
    pair, second, _, row = shown.out.splitlines()
    assert pair == f"name  {SEEN}" and second == "      status  succeeded", "no value looks like a pair of its own"
    assert row == f"{SEEN}  {SEEN}"


def test_an_answer_is_rendered_and_nothing_of_it_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_markdown(f"**bold** {NASTY}")
    assert capsys.readouterr().out == f"**bold** {SEEN}\n"


def test_of_an_argument_of_several_lines_the_first_is_named_where_all_of_it_is_below() -> None:
    several = item().model_copy(update={"arguments": {"content": "one\ntwo\nthree", "path": "a"}})
    assert "  content: one [and 2 more lines]\n  path: a\n" in in_full(several)
    alone = several.model_copy(update={"preview": None})
    assert "  content: one⟦U+000A⟧two⟦U+000A⟧three\n" in in_full(alone)
