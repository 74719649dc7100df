"""Files for orders over HTTP: stored as they are, given to orders, read back, and refused where they are of no use."""

import hashlib
import io
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
from PIL import Image

from mcc.contracts.attachments import CHUNK_BYTES, FILE_BYTES
from mcc.contracts.ids import fresh_id
from mcc.store.store import Store

FILES = "/api/v1/artifacts"


def picture(kind: str = "PNG", size: tuple[int, int] = (81, 64)) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", size, "red").save(file, kind)
    return file.getvalue()


async def sent(api: httpx.AsyncClient, data: bytes, name: str = "shot.png", kind: str = "image/png") -> httpx.Response:
    headers = {"Content-Type": kind, "Content-Disposition": f'attachment; filename="{name}"'}
    return await api.post(FILES, content=data, headers=headers)


async def test_a_picture_is_measured_stored_and_read_back(api: httpx.AsyncClient) -> None:
    data = picture()
    answer = await sent(api, data)
    stored = answer.json()
    assert answer.status_code == 201
    assert stored | {"id": ""} == {
        "id": "",
        "digest": hashlib.sha256(data).hexdigest(),
        "name": "shot.png",
        "media_type": "image/png",
        "bytes": len(data),
        "width": 81,
        "height": 64,
    }
    back = await api.get(f"{FILES}/{stored['id']}")
    assert (back.content, back.headers["content-type"]) == (data, "image/png")
    assert back.headers["content-disposition"] == "attachment; filename*=UTF-8''shot.png"


async def test_its_bytes_and_not_its_name_say_what_a_file_is(api: httpx.AsyncClient) -> None:
    assert (await sent(api, picture("JPEG"), "shot.png")).json()["media_type"] == "image/jpeg"
    assert (await sent(api, "naïve".encode(), "shot.png")).json()["media_type"] == "text/plain"
    assert (await sent(api, b"%PDF-1.7", "a.txt", "text/plain")).json()["media_type"] == "application/pdf"


async def test_a_file_of_several_pieces_arrives_whole(api: httpx.AsyncClient) -> None:
    data = "ä".encode() * (CHUNK_BYTES + 7)
    stored = (await sent(api, data, "long.txt")).json()
    assert stored["bytes"] == len(data)
    assert (await api.get(f"{FILES}/{stored['id']}")).content == data


REFUSED: Mapping[str, tuple[bytes, int, str]] = {
    "empty": (b"", 422, "empty"),
    "no pixels": (picture()[:16] + b"\0" * 8 + picture()[24:], 422, "0 x 0 pixels"),
    "a picture without its size": (picture()[:17], 422, "cut off"),
    "binary": (b"\0\1\2", 415, "binary"),
    "no UTF-8": (b"a" * CHUNK_BYTES + b"\xff", 415, "UTF-8"),
    "half a character": (("ä" * 9).encode()[:-1], 415, "UTF-8"),
    "too large": (b"x" * (FILE_BYTES + 1), 413, "33,554,432"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_is_of_no_use_is_refused_and_not_kept(api: httpx.AsyncClient, store: Store, name: str) -> None:
    data, status, said = REFUSED[name]
    answer = await sent(api, data)
    assert (answer.status_code, said in answer.json()["detail"]) == (status, True), answer.text
    rows = store.database.read(lambda connection: connection.exec_driver_sql("SELECT count(*) FROM artifacts").scalar())
    assert rows == 0


async def test_a_body_of_unknown_length_is_bounded_as_well(api: httpx.AsyncClient) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(FILE_BYTES // CHUNK_BYTES + 9):
            yield b"x" * CHUNK_BYTES

    assert (await api.post(FILES, content=endless())).status_code == 413


@pytest.mark.parametrize("name", ["../../etc/passwd", "C:\\\\boot\\\\passwd"])
async def test_a_name_is_no_path(api: httpx.AsyncClient, name: str) -> None:
    assert (await sent(api, b"text", name)).json()["name"] == "passwd"


async def test_an_order_is_given_files_that_are_there(api: httpx.AsyncClient) -> None:
    stored = (await sent(api, picture())).json()
    placed = await api.post("/api/v1/orders", json={"prompt": "Look.", "attachments": [stored["id"]]})
    assert placed.json()["attachments"] == [stored["id"]]
    for wrong in ([fresh_id()], ["x"], [stored["id"]] * 21):
        refused = await api.post("/api/v1/orders", json={"prompt": "Look.", "attachments": wrong})
        assert refused.status_code == 422 and "attachments" in refused.json()["detail"]
    generate = {"kind": "generate", "blueprint": "course", "attachments": [stored["id"]]}
    assert "kind chat" in (await api.post("/api/v1/orders", json=generate)).json()["detail"]


async def test_a_removed_file_is_gone(api: httpx.AsyncClient) -> None:
    stored = (await sent(api, picture())).json()
    assert (await api.delete(f"{FILES}/{stored['id']}")).status_code == 204
    for address in (f"{FILES}/{stored['id']}", f"{FILES}/{fresh_id()}", f"{FILES}/no-id"):
        assert (await api.get(address)).status_code == (await api.delete(address)).status_code == 404
