"""Documents over HTTP: creating, paging, changing, and refusals."""

from typing import Any

import httpx
import pytest

from mcc.store.store import Store
from tests.mcc.api.test_answers_as_described import check
from tests.mcc.api.test_orders_over_http import NOBODY, is_problem

DOCUMENTS, DOCUMENT = "/api/v1/documents", "/api/v1/documents/{document_id}"
COURSE = """
blueprint: short_course
version: 3
root: course
components:
  course:
    metadata:
      topic: {type: text, required: true}
      grade: {type: number, integer: true, default: 7}
    properties:
      title: {type: text, required: true, min_length: 5}
    rules: [{function: titles_differ}]
    children: {lesson: {min: 1}}
    describe: 'Course on {metadata.topic}, grade {metadata.grade}.'
  lesson:
    metadata:
      focus: {type: text}
    properties:
      grade: {type: number, bind: '{parent.metadata.grade}'}
      minutes: {type: number, integer: true, required: true, rules: [{cel: value == null || value % 5 == 0}]}
      builds_on: {type: reference, to: lesson}
"""
LESSON = {"command": "add_child", "node": "/", "component": "lesson"}


@pytest.fixture
async def blueprint(api: httpx.AsyncClient) -> str:
    """Upload a blueprint. Answers its name."""
    kept = await api.post("/api/v1/blueprints", json={"text": COURSE})
    assert kept.status_code == 201
    return f"{kept.json()['name']}:{kept.json()['digest'][7:19]}"


@pytest.fixture
async def document_id(api: httpx.AsyncClient, blueprint: str) -> str:
    made = await api.post(DOCUMENTS, json={"blueprint": blueprint, "metadata": {"topic": "Light"}})
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


async def changed(
    api: httpx.AsyncClient, document_id: str, *commands: dict[str, Any], key: str | None = None, **more: Any
) -> httpx.Response:
    headers = {"Idempotency-Key": key} if key else {}
    path = f"{DOCUMENTS}/{document_id}/commands"
    return await api.post(path, json={"commands": commands, **more}, headers=headers)


def minutes(value: object, node: str = "/lesson-1") -> dict[str, Any]:
    return {"command": "set_value", "node": node, "values": {"minutes": value}}


async def nodes(api: httpx.AsyncClient, document_id: str, **asked: Any) -> list[dict[str, Any]]:
    answer = await api.get(f"{DOCUMENTS}/{document_id}", params=asked)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["nodes"])


async def test_a_blueprint_that_was_handed_over_is_found_by_its_digest_and_its_name(
    api: httpx.AsyncClient, blueprint: str
) -> None:
    assert (await api.get(f"/api/v1/blueprints/{blueprint}")).json()["origin"] == "kept"
    assert (await api.get("/api/v1/blueprints/short_course")).json()["version"] == 3
    listed = (await api.get("/api/v1/blueprints")).json()["items"]
    assert "short_course" in {one["name"] for one in listed}
    again = await api.post("/api/v1/blueprints", json={"text": COURSE})
    assert again.status_code == 201 and again.headers["location"] == f"blueprints/{blueprint}"


async def test_a_blueprint_that_is_handed_over_takes_no_shipped_one_s_place(api: httpx.AsyncClient) -> None:
    shipped = (await api.get("/api/v1/blueprints/course")).json()
    mine = await api.post("/api/v1/blueprints", json={"text": COURSE.replace("short_course", "course")})
    assert (await api.get("/api/v1/blueprints/course")).json()["digest"] == shipped["digest"]
    by_digest = await api.get(f"/api/v1/blueprints/course:{mine.json()['digest'][7:19]}")
    assert by_digest.json()["digest"] == mine.json()["digest"]


async def test_all_that_is_wrong_with_a_blueprint_is_told_and_nothing_is_kept(api: httpx.AsyncClient) -> None:
    wrong = COURSE.replace("required: true", "requird: true")
    answer = await api.post("/api/v1/blueprints", json={"text": wrong})
    is_problem(answer, 422)
    assert [(one["line"], set(one)) for one in answer.json()["errors"]] == [
        (line, {"line", "place", "message"}) for line in (8, 11, 20)
    ]
    is_problem(await api.get("/api/v1/blueprints/short_course"), 404)


async def test_a_document_is_made_with_the_metadata_of_a_person(
    api: httpx.AsyncClient, blueprint: str, document: dict[str, Any]
) -> None:
    made = await api.post(DOCUMENTS, json={"blueprint": blueprint, "metadata": {"topic": "Light"}})
    check(document, made, DOCUMENTS)
    told = made.json()
    assert made.headers["location"] == f"documents/{told['id']}" and made.headers["etag"] == '"1"'
    assert (told["title"], told["version"], told["status"], told["order_id"]) == ("Light", 1, "pending", None)
    [root] = told["nodes"]
    assert root["metadata"] == {"topic": "Light", "grade": 7}
    assert root["provenance"]["metadata.topic"]["accepted"] == {"version": 1, "principal": "operator"}
    again = await api.get(f"{DOCUMENTS}/{told['id']}")
    check(document, again, DOCUMENT)
    assert again.json() == told and again.headers["etag"] == '"1"'


async def test_the_same_key_and_body_give_the_same_document(api: httpx.AsyncClient, blueprint: str) -> None:
    key, body = {"Idempotency-Key": "k"}, {"blueprint": blueprint, "metadata": {"topic": "Light"}}
    first = await api.post(DOCUMENTS, json=body, headers=key)
    second = await api.post(DOCUMENTS, json=body, headers=key)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json()["id"] == second.json()["id"]
    is_problem(await api.post(DOCUMENTS, json={**body, "metadata": {"topic": "Heat"}}, headers=key), 409)


async def test_commands_that_cannot_be_done_a_second_time_are_answered_as_before(
    api: httpx.AsyncClient, document_id: str
) -> None:
    await changed(api, document_id, LESSON)
    removal = {"command": "remove_child", "node": "/lesson-1"}
    first, second = [await changed(api, document_id, removal, key="k") for _ in range(2)]
    assert first.status_code == 200, first.text
    assert (second.status_code, second.json()) == (200, first.json())
    is_problem(await changed(api, document_id, removal), 404)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"blueprint": "coarse"}, 404, "course"),
        ({"blueprint": "short_course:000000000000"}, 404, "000000000000"),
        ({"blueprint": "short_course", "metadata": {"topik": "x"}}, 422, "metadata.topic"),
        ({"blueprint": "short_course", "metadata": {"grade": "seven"}}, 422, "grade"),
        ({"blueprint": "short_course", "metdata": {}}, 422, '(did you mean \\"metadata\\"?)'),
        ({"blueprint": "short_course", "nodes": [{"path": "/a-1", "prop": {}}]}, 422, '(did you mean \\"props\\"?)'),
        ({"blueprint": "short_course", "nodes": [{"path": "/lesson-1/x-1"}]}, 422, "nodes.0"),
    ],
)
async def test_a_document_that_cannot_be_is_not_made(
    api: httpx.AsyncClient, blueprint: str, body: dict[str, Any], status: int, words: str
) -> None:
    answer = await api.post(DOCUMENTS, json=body)
    is_problem(answer, status)
    assert words in answer.text
    assert (await api.get(DOCUMENTS)).json()["items"] == []


async def test_documents_are_listed_by_what_they_are(
    api: httpx.AsyncClient, blueprint: str, document: dict[str, Any]
) -> None:
    ids = [
        (await api.post(DOCUMENTS, json={"blueprint": blueprint, "metadata": {"topic": topic}})).json()["id"]
        for topic in ("Light", "Heat", "Sound")
    ]
    listed = await api.get(DOCUMENTS, params={"limit": 2})
    check(document, listed, DOCUMENTS)
    assert [one["title"] for one in listed.json()["items"]] == ["Sound", "Heat"]
    rest = await api.get(DOCUMENTS, params={"limit": 2, "cursor": listed.json()["next_cursor"]})
    assert [one["id"] for one in rest.json()["items"]] == [ids[0]] and rest.json()["next_cursor"] is None
    for asked, count in (
        ({"status": "pending"}, 3),
        ({"status": "done"}, 0),
        ({"blueprint": "short_course"}, 3),
        ({"blueprint": blueprint}, 3),
        ({"blueprint": "course"}, 0),
        ({"part": ids[1][-12:]}, 1),
        ({"part": ids[1][:30]}, 1),
    ):
        assert len((await api.get(DOCUMENTS, params=asked)).json()["items"]) == count, asked
    is_problem(await api.get(DOCUMENTS, params={"status": "running"}), 422)


async def test_commands_are_done_in_turn_all_or_none(
    api: httpx.AsyncClient, document_id: str, document: dict[str, Any]
) -> None:
    done = await changed(api, document_id, LESSON, LESSON, minutes(40, "/lesson-2"))
    check(document, done, f"{DOCUMENT}/commands")
    assert done.json() == {"version": 2, "changed": ["/"], "made": ["/lesson-1", "/lesson-2"], "status": "pending"}
    assert done.headers["etag"] == '"2"'
    refused = await changed(api, document_id, minutes(20), {"command": "remove_child", "node": "/lesson-9"})
    assert "commands.1" in is_problem(refused, 404)
    assert [one["props"].get("minutes") for one in await nodes(api, document_id)] == [None, None, 40]


async def test_the_same_commands_with_the_same_key_are_done_once(api: httpx.AsyncClient, document_id: str) -> None:
    first = await changed(api, document_id, LESSON, key="k")
    second = await changed(api, document_id, LESSON, key="k")
    assert first.json() == second.json()
    assert len(await nodes(api, document_id)) == 2
    is_problem(await changed(api, document_id, LESSON, LESSON, key="k"), 409)


async def test_a_node_that_changed_meanwhile_is_a_conflict_that_says_so(
    api: httpx.AsyncClient, document_id: str, document: dict[str, Any]
) -> None:
    await changed(api, document_id, LESSON, LESSON)
    await changed(api, document_id, minutes(20))
    other = await changed(api, document_id, minutes(30, "/lesson-2"), expected_version=2)
    assert other.status_code == 200
    late = await changed(api, document_id, minutes(25), minutes(35, "/lesson-2"), expected_version=2)
    check(document, late, f"{DOCUMENT}/commands")
    is_problem(late, 409)
    assert (late.json()["version"], late.json()["changed"]) == (4, ["/lesson-1", "/lesson-2"])


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (minutes("forty"), 422),
        (minutes(40, "/lesson-7"), 404),
        ({"command": "set_value", "node": "/lesson-1", "values": {"grade": 8}}, 422),
        ({"command": "set_value", "node": "/lesson-1", "values": {"minuts": 8}}, 422),
        ({"command": "set_vlue", "node": "/lesson-1", "values": {"minutes": 8}}, 422),
        ({"command": "settle", "node": "/lesson-1"}, 422),
        ({"command": "judge", "version": 1, "verdicts": {}}, 422),
        ({"command": "remove_child", "node": "/"}, 422),
        ({"command": "undo", "node": "/"}, 422),
    ],
)
async def test_what_a_document_does_not_take_changes_nothing(
    api: httpx.AsyncClient, document_id: str, command: dict[str, Any], status: int
) -> None:
    await changed(api, document_id, LESSON)
    is_problem(await changed(api, document_id, command), status)
    assert (await api.get(f"{DOCUMENTS}/{document_id}")).json()["version"] == 2


async def test_a_value_that_only_breaks_a_rule_is_taken_and_its_verdict_says_so(
    api: httpx.AsyncClient, document_id: str
) -> None:
    await changed(api, document_id, LESSON, minutes(7))
    lesson = (await nodes(api, document_id, node="/lesson-1"))[0]
    verdicts = {one["rule"]: one["ok"] for one in lesson["verdicts"]}
    assert lesson["props"]["minutes"] == 7 and verdicts["props.minutes.rules[0]"] is False


async def test_nodes_are_shown_from_a_node_down_and_page_by_page(api: httpx.AsyncClient, document_id: str) -> None:
    await changed(api, document_id, *[LESSON] * 5)
    assert [one["path"] for one in await nodes(api, document_id, node="/lesson-3")] == ["/lesson-3"]
    assert [one["path"] for one in await nodes(api, document_id, depth=0)] == ["/"]
    seen: list[str] = []
    cursor: str | None = None
    while True:
        asked = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.get(f"{DOCUMENTS}/{document_id}", params=asked)).json()
        seen += [one["path"] for one in page["nodes"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == ["/", *(f"/lesson-{number}" for number in range(1, 6))]
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}", params={"node": "/lesson-9"}), 404)
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}", params={"cursor": "nonsense"}), 400)


async def test_a_past_version_is_shown_as_it_was_and_what_differs_is_told(
    api: httpx.AsyncClient, document_id: str, document: dict[str, Any]
) -> None:
    await changed(api, document_id, LESSON)
    await changed(api, document_id, minutes(20), {"command": "set_metadata", "node": "/", "values": {"grade": 8}})
    then = await api.get(f"{DOCUMENTS}/{document_id}", params={"version": 2})
    check(document, then, DOCUMENT)
    assert (then.headers["etag"], then.json()["version"]) == ('"2"', 2)
    lesson = then.json()["nodes"][1]
    assert (lesson["props"]["minutes"], lesson["props"]["grade"]) == (None, 7)
    differs = await api.get(f"{DOCUMENTS}/{document_id}/diff", params={"from": 2})
    check(document, differs, f"{DOCUMENT}/diff")
    assert (differs.json()["from"], differs.json()["to"]) == (2, 3)
    told = {one["path"]: one["fields"] for one in differs.json()["nodes"]}
    assert told["/"] == {"metadata.grade": [7, 8]}
    assert told["/lesson-1"] == {"props.grade": [7, 8], "props.minutes": [None, 20]}
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}", params={"version": 9}), 404)
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}/diff"), 422)


@pytest.mark.parametrize(
    ("format", "media", "words"),
    [
        ("json", "application/json", '"path":"/lesson-1"'),
        ("md", "text/markdown; charset=utf-8", "Light"),
        ("html", "text/html; charset=utf-8", "</html>"),
        ("jsonl", "application/x-ndjson", '"component":"lesson"'),
    ],
)
async def test_a_document_is_exported(
    api: httpx.AsyncClient, document_id: str, format: str, media: str, words: str
) -> None:
    await changed(api, document_id, LESSON)
    answer = await api.get(f"{DOCUMENTS}/{document_id}/export", params={"format": format})
    assert (answer.status_code, answer.headers["content-type"], answer.headers["etag"]) == (200, media, '"2"')
    assert answer.headers["content-disposition"] == f'attachment; filename="{document_id}.{format}"'
    assert words in answer.text
    before = await api.get(f"{DOCUMENTS}/{document_id}/export", params={"format": format, "version": 1})
    assert before.headers["etag"] == '"1"' and len(before.text) < len(answer.text)


async def test_an_export_makes_the_same_document_again(
    api: httpx.AsyncClient, document_id: str, blueprint: str
) -> None:
    await changed(
        api, document_id, LESSON, minutes(20), LESSON, {"command": "remove_child", "node": "/lesson-2"}, LESSON
    )
    whole = (await api.get(f"{DOCUMENTS}/{document_id}/export")).json()
    again = await api.post(DOCUMENTS, json={"blueprint": blueprint, "nodes": whole["nodes"]})
    assert again.status_code == 201, again.text
    told = [(one["path"], one["metadata"], one["props"]) for one in again.json()["nodes"]]
    assert told == [(one["path"], one["metadata"], one["props"]) for one in whole["nodes"]]
    assert {one["path"] for one in whole["nodes"]} == {"/", "/lesson-1", "/lesson-3"}


async def test_a_form_that_is_none_is_refused(api: httpx.AsyncClient, document_id: str) -> None:
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}/export", params={"format": "pdf"}), 422)


async def test_what_was_done_is_told_newest_first(
    api: httpx.AsyncClient, document_id: str, document: dict[str, Any]
) -> None:
    await changed(api, document_id, LESSON)
    await changed(api, document_id, minutes(20))
    page = await api.get(f"{DOCUMENTS}/{document_id}/history", params={"limit": 1})
    check(document, page, f"{DOCUMENT}/history")
    [item] = page.json()["items"]
    assert (item["version"], item["by"], item["principal"]) == (3, "person", "operator")
    assert (item["command"], item["node"]) == ("set_value", "/lesson-1")
    assert item["fields"]["props.minutes"] == [None, 20]
    rest = await api.get(f"{DOCUMENTS}/{document_id}/history", params={"cursor": page.json()["next_cursor"]})
    assert "add_child" in {one["command"] for one in rest.json()["items"]}


async def test_a_change_is_taken_back_and_made_again(api: httpx.AsyncClient, document_id: str) -> None:
    await changed(api, document_id, LESSON)
    await changed(api, document_id, minutes(20))
    for command, value in (("undo", None), ("redo", 20)):
        answer = await changed(api, document_id, {"command": command})
        assert answer.status_code == 200, answer.text
        assert (await nodes(api, document_id))[1]["props"]["minutes"] == value
    assert answer.json()["version"] == 5


async def test_a_deleted_document_is_gone_and_its_order_is_cancelled(
    api: httpx.AsyncClient, store: Store, document_id: str
) -> None:
    assert (await api.delete(f"{DOCUMENTS}/{document_id}")).status_code == 204
    for path in ("", "/history", "/diff?from=1"):
        is_problem(await api.get(f"{DOCUMENTS}/{document_id}{path}"), 404)
    is_problem(await changed(api, document_id, LESSON), 404)
    is_problem(await api.delete(f"{DOCUMENTS}/{document_id}"), 404)
    assert (await api.get(DOCUMENTS)).json()["items"] == []


@pytest.mark.parametrize("path", ["", "/history", "/diff?from=1"])
@pytest.mark.parametrize("document_id", [NOBODY, "nobody"])
async def test_a_document_that_is_not_there_is_not_found(api: httpx.AsyncClient, path: str, document_id: str) -> None:
    is_problem(await api.get(f"{DOCUMENTS}/{document_id}{path}"), 404)


async def test_a_value_of_the_wrong_kind_is_refused_in_one_sentence_that_names_its_field(
    api: httpx.AsyncClient, document_id: str
) -> None:
    await changed(api, document_id, LESSON)
    answer = await changed(api, document_id, minutes("x"))
    assert is_problem(answer, 422) == "props.minutes of /lesson-1: This must be a number, and a text was given."
    assert [one["field"] for one in answer.json()["errors"]] == ["props.minutes"]


@pytest.mark.parametrize(
    ("generation", "said"),
    [
        ({"concurency": 3}, 'generation.concurency: Nothing of this name is known here (did you mean "concurrency"?)'),
        ({"on_failure": "quorum"}, 'generation.on_failure: Input should be "collect", "fail_fast" or {"quorum": 0.9}'),
        ({"on_failure": {"quorum": 2}}, "generation.on_failure: Input should be"),
    ],
)
async def test_what_a_generation_does_not_know_is_refused_in_one_sentence_with_what_was_meant(
    api: httpx.AsyncClient, blueprint: str, generation: dict[str, Any], said: str
) -> None:
    asked = {"kind": "generate", "blueprint": blueprint, "generation": generation}
    answer = await api.post("/api/v1/orders", json=asked)
    assert is_problem(answer, 422).startswith(said)
    assert len(answer.json()["errors"]) == 1
