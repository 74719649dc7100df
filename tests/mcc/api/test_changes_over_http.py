"""What an order changed: files and their lines, comments on them, drafts, and the bytes of artifacts."""

import base64
from typing import Any

import httpx
import pytest

from mcc.contracts.blocks import ImageBlock
from mcc.contracts.changes import ChangedFile, Changes, CommitMade, WorktreeChange
from mcc.contracts.git_facts import WorktreeState
from mcc.contracts.ids import call_id
from mcc.contracts.journal import ToolFinished, ToolStarted
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone, HeldOrder
from tests.mcc.api.test_answers_as_described import check

ORDERS = "/api/v1/orders"
DIFF = """--- a/app.py
+++ b/app.py
@@ -1,3 +1,4 @@
 import os
-print("old")
+print("new")
+print("\u202eevil")
 # end
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
Binary files a/logo.png and b/logo.png differ
"""
FILES = (
    ChangedFile(path="app.py", change="modified", added=2, removed=1),
    ChangedFile(path="gone.txt", change="deleted", removed=1),
    ChangedFile(path="logo.png", change="modified"),
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.fixture
async def held(api: httpx.AsyncClient, store: Store) -> HeldOrder:
    placed = await api.post(ORDERS, json={"prompt": "Change it", "agent": "master", "labels": ["x"]})
    order = HandDrone(store).claim(placed.json()["id"])
    order.start("Change it")
    return order


def write_file(held: HeldOrder, content: str = f"app.py was changed.\n{DIFF.partition('--- a/gone')[0]}") -> str:
    """A call that has written a file; its id."""
    call = call_id(held.master.record_id or "", 1, 0)
    arguments = {"path": "app.py"}
    begun = ToolStarted(call_id=call, name="edit_file", round=1, index=0, arguments=arguments, idempotent=True)
    held.write(begun, ToolFinished(call_id=call, name="edit_file", content=content, is_error=False))
    return call


def finish(held: HeldOrder, store: Store) -> None:
    digest = store.texts.keep(DIFF, owner=held.id)
    held.finish(changes=Changes(workspace="/w", base="abc", files=FILES, diff=digest))


async def test_files_are_told_when_the_order_has_ended(
    api: httpx.AsyncClient, held: HeldOrder, store: Store, document: dict[str, Any]
) -> None:
    answer = await api.get(f"{ORDERS}/{held.id}/changes")
    check(document, answer, f"{ORDERS}/{{order_id}}/changes")
    assert answer.json() is None
    finish(held, store)
    answer = await api.get(f"{ORDERS}/{held.id}/changes")
    check(document, answer, f"{ORDERS}/{{order_id}}/changes")
    told = answer.json()
    assert told["base"] == "abc" and told["next_cursor"] is None
    assert [(file["path"], file["change"], file["binary"]) for file in told["files"]] == [
        ("app.py", "modified", False),
        ("gone.txt", "deleted", False),
        ("logo.png", "modified", True),
    ]


async def test_many_files_of_long_names_come_in_pages(api: httpx.AsyncClient, held: HeldOrder) -> None:
    files = tuple(ChangedFile(path=f"{number}/" + "\u202e" * 2_000, change="added") for number in range(300))
    commits = tuple(CommitMade(id=f"{number:040}", subject="\u202e" * 5_000) for number in range(100))
    places = [WorktreeChange(record_id=held.id, agent="a", ref="r", state=WorktreeState.CONFLICT)] * 30
    names = {"conflicts": tuple(file.path for file in files[:20])}
    worktrees = tuple(place.model_copy(update=names) for place in places)
    held.finish(changes=Changes(workspace="/w", base="abc", files=files, commits=commits, worktrees=worktrees))
    paths: list[str] = []
    cursor: str | None = None
    while True:
        answer = await api.get(f"{ORDERS}/{held.id}/changes", params={"cursor": cursor} if cursor else {})
        assert len(answer.content) < 2_000_000
        page = answer.json()
        assert bool(page["commits"]) == bool(page["worktrees"]) == (cursor is None)
        paths += [file["path"] for file in page["files"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert paths == [file.path for file in files]
    overview = await api.get(f"{ORDERS}/{held.id}/overview")
    assert len(overview.content) < 2_000_000 and overview.json()["order"]["changes"]["files"]


@pytest.mark.parametrize("cursor", ["x", "-1", "1" * 10, "²"])
async def test_a_cursor_of_nobody_is_refused(api: httpx.AsyncClient, held: HeldOrder, cursor: str) -> None:
    for path in ("changes", "changes/file"):
        answer = await api.get(f"{ORDERS}/{held.id}/{path}", params={"path": "app.py", "cursor": cursor})
        assert answer.status_code == 400


async def test_a_file_is_told_line_by_line_in_its_colours(
    api: httpx.AsyncClient, held: HeldOrder, store: Store, document: dict[str, Any]
) -> None:
    finish(held, store)
    answer = await api.get(f"{ORDERS}/{held.id}/changes/file", params={"path": "app.py"})
    check(document, answer, f"{ORDERS}/{{order_id}}/changes/file")
    ((hunk),) = answer.json()["hunks"]
    lines = [(sign, old, new, "".join(text for _, text in pieces)) for sign, old, new, pieces in hunk["lines"]]
    assert lines == [
        (" ", 1, 1, "import os"),
        ("-", 2, None, 'print("old")'),
        ("+", None, 2, 'print("new")'),
        ("+", None, 3, 'print("U+202Eevil")'),
        (" ", 3, 4, "# end"),
    ]
    assert ["ctl", "U+202E"] in hunk["lines"][3][3] and ["kn", "import"] in hunk["lines"][0][3]
    assert answer.json()["language"] == "py" and answer.json()["next_cursor"] is None
    binary = await api.get(f"{ORDERS}/{held.id}/changes/file", params={"path": "logo.png"})
    assert binary.json()["hunks"] == []
    for path in ("other.py", "../app.py"):
        missing = await api.get(f"{ORDERS}/{held.id}/changes/file", params={"path": path})
        assert missing.status_code == 404


async def test_a_long_file_comes_in_pages(api: httpx.AsyncClient, held: HeldOrder, store: Store) -> None:
    lines = "".join(f"+line {number}\n" for number in range(1, 2_501))
    digest = store.texts.keep(f"--- /dev/null\n+++ b/long.txt\n@@ -0,0 +1,2500 @@\n{lines}", owner=held.id)
    file = ChangedFile(path="long.txt", change="added", added=2_500)
    held.finish(changes=Changes(workspace="/w", files=(file,), diff=digest))
    numbers: list[int] = []
    cursor: str | None = "0"
    while cursor is not None:
        query = {"path": "long.txt", "cursor": cursor}
        page = (await api.get(f"{ORDERS}/{held.id}/changes/file", params=query)).json()
        numbers += [line[2] for hunk in page["hunks"] for line in hunk["lines"]]
        cursor = page["next_cursor"]
    assert numbers == list(range(1, 2_501))


@pytest.mark.parametrize(("piece", "times"), [("a\u202e", 150_000), ("(", 1_000), ("(", 100_000)])
async def test_no_answer_about_a_file_is_large_whatever_its_lines_are(
    api: httpx.AsyncClient, held: HeldOrder, store: Store, piece: str, times: int
) -> None:
    line = piece * times
    count = 300_000 // len(line)
    part = f"--- /dev/null\n+++ b/hostile.py\n@@ -0,0 +1,{count} @@\n" + f"+{line}\n" * count
    call = write_file(held, f"hostile.py was written.\n{part}")
    rows = await api.get(f"{ORDERS}/{held.id}/rows")
    [row] = [row for row in rows.json()["items"] if row["data"].get("call_id") == call]
    assert row["data"]["changes"][0]["path"] == "hostile.py" and len(rows.content) < 2_000_000
    file = ChangedFile(path="hostile.py", change="added", added=count)
    held.finish(changes=Changes(workspace="/w", files=(file,), diff=store.texts.keep(part, owner=held.id)))
    numbers: list[int] = []
    asked: dict[str, str | None] = {"path": "hostile.py", "cursor": None}
    while len(numbers) < count:
        answer = await api.get(f"{ORDERS}/{held.id}/changes/file", params={k: v for k, v in asked.items() if v})
        assert len(answer.content) < 2_000_000
        ((hunk),) = answer.json()["hunks"]
        numbers += [number for _, _, number, _ in hunk["lines"]]
        asked["cursor"] = answer.json()["next_cursor"]
    assert numbers == list(range(1, count + 1)) and asked["cursor"] is None
    rest = [text for kind, text in hunk["lines"][-1][3] if kind == "ctl" and "more" in text]
    assert rest == ([f"{len(line) - 2_000:,} more characters"] if len(line) > 2_000 else [])


async def test_while_an_order_runs_each_writing_call_tells_what_it_changed(
    api: httpx.AsyncClient, held: HeldOrder
) -> None:
    write_file(held)
    rows = (await api.get(f"{ORDERS}/{held.id}/rows?kinds=tool")).json()["items"]
    ((changed),) = rows[0]["data"]["changes"]
    assert changed["path"] == "app.py" and [line[0] for line in changed["hunks"][0]["lines"]] == [
        " ",
        "-",
        "+",
        "+",
        " ",
    ]


async def test_comments_on_lines_are_one_steer(api: httpx.AsyncClient, held: HeldOrder) -> None:
    call = write_file(held)
    comments = [
        {"call_id": call, "line": 2, "end_line": 3, "text": "Why twice?"},
        {"call_id": call, "side": "old", "line": 2, "text": "Keep this."},
    ]
    body = {"comments": comments, "note": "Otherwise fine."}
    key = {"Idempotency-Key": "k"}
    sent = await api.post(f"{ORDERS}/{held.id}/review", json=body, headers=key)
    assert sent.status_code == 202, sent.text
    again = await api.post(f"{ORDERS}/{held.id}/review", json=body, headers=key)
    assert again.status_code == 202 and again.json() == sent.json()
    (control,) = (await api.get(f"{ORDERS}/{held.id}/controls")).json()["items"]
    assert control["id"] == sent.json()["receipt"]["id"] and control["kind"] == "steer"
    assert control["message"] == (
        'app.py:2-3 (new)\n> +print("new")\n> +print("\u202eevil")\n\nWhy twice?\n\n'
        'app.py:2 (old)\n> -print("old")\n\nKeep this.\n\nOtherwise fine.'
    )


async def test_comments_on_an_order_that_has_ended_are_the_next_turn(
    api: httpx.AsyncClient, held: HeldOrder, store: Store
) -> None:
    finish(held, store)
    body = {"comments": [{"path": "gone.txt", "side": "old", "line": 1, "text": "Bring it back."}]}
    sent = await api.post(f"{ORDERS}/{held.id}/review", json=body, headers={"Idempotency-Key": "k"})
    assert sent.status_code == 201, sent.text
    order = sent.json()
    assert order["prompt"] == "gone.txt:1 (old)\n> -bye\n\nBring it back."
    assert order["session_seq"] == 2 and order["labels"] == ["x"] and order["agent"] == "master"
    again = await api.post(f"{ORDERS}/{held.id}/review", json=body, headers={"Idempotency-Key": "k"})
    assert again.status_code == 200 and again.json()["id"] == order["id"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"comments": []}, "comments"),
        ({"note": " \n"}, "comments"),
        ({"comments": [{"line": 1, "text": "x"}]}, "comments.0.path"),
        ({"comments": [{"path": "a", "call_id": "b", "line": 1, "text": "x"}]}, "comments.0.path"),
        ({"comments": [{"path": "other.py", "line": 1, "text": "x"}]}, "comments.0.path"),
        ({"comments": [{"path": "app.py", "line": 5, "text": "x"}]}, "comments.0.line"),
        ({"comments": [{"path": "app.py", "line": 4, "end_line": 9, "text": "x"}]}, "comments.0.line"),
        ({"comments": [{"path": "app.py", "line": 4, "end_line": 3, "text": "x"}]}, "comments.0.end_line"),
        ({"comments": [{"path": "app.py", "line": 0, "text": "x"}]}, "comments.0.line"),
        ({"comments": [{"call_id": "nonsense", "line": 1, "text": "x"}]}, "comments.0.call_id"),
        ({"comments": [{"path": "app.py", "line": 1, "text": "x" * 9_000}] * 3}, "comments"),
        ({"comments": [{"path": "app.py", "line": 1, "text": "x"}] * 101}, "comments"),
    ],
)
async def test_a_review_of_lines_that_are_not_there_is_refused(
    api: httpx.AsyncClient, held: HeldOrder, store: Store, body: Any, field: str
) -> None:
    finish(held, store)
    refused = await api.post(f"{ORDERS}/{held.id}/review", json=body)
    assert refused.status_code == 422, refused.text
    assert refused.json()["errors"][0]["field"] == field, refused.text


async def test_drafts_come_back_as_they_were_stored(
    api: httpx.AsyncClient, held: HeldOrder, document: dict[str, Any]
) -> None:
    path = f"{ORDERS}/{held.id}/drafts"
    assert (await api.get(path)).json() == {"drafts": None, "changed_at": None}
    assert (await api.put(path, json={"note": "half a s"})).status_code == 204
    answer = await api.get(path)
    check(document, answer, f"{ORDERS}/{{order_id}}/drafts")
    assert answer.json()["drafts"] == {"note": "half a s"}
    assert (await api.put(path, json={"note": "x" * 70_000})).status_code == 413
    assert (await api.put(path, json=["x"])).status_code == 422
    assert (await api.put(path, json={})).status_code == 204
    assert (await api.get(path)).json()["drafts"] is None


async def test_pictures_are_shown_and_all_else_is_a_file_to_save(
    api: httpx.AsyncClient, held: HeldOrder, store: Store
) -> None:
    picture = store.texts.keep(base64.b64encode(PNG).decode(), owner=held.id)
    html = store.texts.keep("<script>alert(1)</script>", owner=held.id)
    svg = store.texts.keep(base64.b64encode(b"<svg onload='alert(1)'/>").decode(), owner=held.id)
    call = write_file(held)
    for number, digest in enumerate((picture, html, svg)):
        image = ImageBlock(artifact=digest, media_type="image/svg+xml")
        held.write(
            ToolFinished(call_id=f"{call}{number}", name="x", content="", is_error=False, images=(image,)),
            origin=held.master,
        )
    shown = await api.get(f"{ORDERS}/{held.id}/artifacts/{picture}/content")
    assert shown.content == PNG and shown.headers["content-type"] == "image/png"
    assert shown.headers["content-disposition"] == "inline"
    for digest in (html, svg):
        saved = await api.get(f"{ORDERS}/{held.id}/artifacts/{digest}/content")
        assert saved.headers["content-type"] == "application/octet-stream"
        assert saved.headers["content-disposition"].startswith("attachment")
    for answer in (shown, saved):
        assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert (await api.get(f"{ORDERS}/{held.id}/artifacts/{'0' * 64}/content")).status_code == 404
