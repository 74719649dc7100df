"""The clients of a family: they post orders and controls over HTTP, and log every answer."""

import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any, Literal

import httpx

from tests.faults.assembly import Places
from tests.faults.jsonlines import JsonLines
from tests.faults.members import NotInTime
from tests.faults.script import Play

ACCEPTED = (200, 201)
SECONDS = 10.0


class Clients:
    """One client for each control service; requests go to them in turn unless one is named (by its index)."""

    def __init__(self, urls: Sequence[str], token: str, places: Places, model: str) -> None:
        self._clients = [
            httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {token}"}, timeout=SECONDS)
            for url in urls
        ]
        self._orders = JsonLines(places.directory / "orders.jsonl")
        self._controls = JsonLines(places.directory / "controls.jsonl")
        self._model = model
        self._turn = 0

    def post(self, prompt: str, *, via: int | None = None, **fields: Any) -> str | None:
        """Post an order once, its key as Idempotency-Key; its id, None when it was not accepted or nobody answered."""
        play = Play.of(prompt)
        key = play.key if play else None
        body = {"prompt": prompt, "model": self._model, **fields}
        headers = {"Idempotency-Key": key} if key else {}
        status, told = self._sent("POST", "/orders", via, body, headers)
        order_id = told.get("id") if status in ACCEPTED else None
        self._orders.write(
            {
                "t": time.time(),
                "key": key,
                "status": status,
                "order_id": order_id,
                "prompt": prompt,
                "session_id": told.get("session_id") or fields.get("session_id"),
                "body_digest": hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest(),
            }
        )
        return order_id

    def submit(self, prompt: str, *, seconds: float = 30.0, **fields: Any) -> str:
        """Post an order until it is accepted, as a client that wants it done. Raises `NotInTime`."""
        end = time.monotonic() + seconds
        while (order_id := self.post(prompt, **fields)) is None:
            if time.monotonic() > end:
                raise NotInTime(f"no order was accepted within {seconds:g} s: {prompt}")
            time.sleep(0.2)
        return order_id

    def control(
        self, order_id: str, kind: str, *, record_id: str | None = None, via: int | None = None, **fields: Any
    ) -> str | None:
        """Ask for a cancel, pause, resume or steer; the receipt's id, None when it was refused or nobody answered."""
        body = {**({"record_id": record_id} if record_id else {}), **fields}
        status, told = self._sent("POST", f"/orders/{order_id}/{kind}", via, body, {})
        receipt = told.get("id") if status == 202 else None
        self._controls.write(
            {
                "t": time.time(),
                "order_id": order_id,
                "kind": kind,
                "record_id": record_id,
                "status": status,
                "receipt_id": receipt,
            }
        )
        return receipt

    def decide(self, item_id: str, decision: Literal["approve", "deny"]) -> int:
        """Decide an approval; the status of the answer, 0 when nobody answered."""
        return self._sent("POST", f"/approvals/{item_id}", None, {"decision": decision}, {})[0]

    def revert(self, order_id: str, *, seconds: float = 30.0) -> str:
        """Ask for a revert until it is accepted; the id of the order that does it. Raises `NotInTime`."""
        end = time.monotonic() + seconds
        while True:
            key = {"Idempotency-Key": f"revert-{order_id}"}
            status, told = self._sent("POST", f"/orders/{order_id}/revert", None, {}, key)
            if status in ACCEPTED:
                return str(told["id"])
            if time.monotonic() > end:
                raise NotInTime(f"no revert was accepted within {seconds:g} s: {status} {told}")
            time.sleep(0.2)

    def get(self, path: str, *, via: int | None = None, **query: Any) -> tuple[int, Any]:
        """Status (0 = nobody answered) and JSON of a path under /api/v1."""
        return self._sent("GET", path, via, None, {}, query)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _sent(
        self,
        method: str,
        path: str,
        via: int | None,
        body: object,
        headers: dict[str, str],
        query: dict[str, Any] | None = None,
    ) -> tuple[int, Any]:
        if via is None:
            self._turn += 1
            via = self._turn
        client = self._clients[via % len(self._clients)]
        try:
            answer = client.request(method, path, json=body, headers=headers, params=query)
        except httpx.HTTPError:
            return 0, {}
        try:
            return answer.status_code, answer.json()
        except ValueError:
            return answer.status_code, {}
