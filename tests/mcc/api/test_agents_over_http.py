"""One agent as defined on the drones: its definition, its effective rights, and its prompt."""

from pathlib import Path

import httpx

from mcc.contracts.agents import AgentDefinition
from mcc.contracts.drones import AgentSheet, Capability, Registration
from mcc.store.store import Store

AGENTS, ORDERS = "/api/v1/agents", "/api/v1/orders"


def register(store: Store, name: str, *agents: Capability, root: str = "/nowhere") -> None:
    one = Registration(
        incarnation=name,
        name=name,
        pid=1,
        host="h",
        version="0",
        queues=("default",),
        slots=1,
        agents=agents,
        workspace_roots=(root,),
    )
    store.leases.register(one, lease_seconds=600)


def sheet(store: Store, prompt: str) -> AgentSheet:
    return AgentSheet(
        definition=AgentDefinition(name="review", tools=("workspace_read",)),
        origin="shipped",
        tools=("read_file",),
        digest="d",
        prompt_digest=store.texts.keep(prompt),
    )


async def test_the_list_has_the_definitions_and_one_agent_its_prompt(api: httpx.AsyncClient, store: Store) -> None:
    register(store, "a", Capability(name="review", agent=sheet(store, "Be strict.")))
    (listed,) = (await api.get(AGENTS)).json()["items"]
    assert listed["agent"]["tools"] == ["read_file"]
    assert listed["agent"]["definition"]["prompt"] == ""
    one = (await api.get(f"{AGENTS}/review")).json()
    assert one["agent"]["definition"]["prompt"] == "Be strict."
    assert one["drones"] == ["a"]


async def test_an_agent_that_no_drone_has_is_not_found(api: httpx.AsyncClient, store: Store) -> None:
    register(store, "a", Capability(name="broken", problem="line 3 is wrong"))
    assert (await api.get(f"{AGENTS}/nobody")).status_code == 404
    assert (await api.get(f"{AGENTS}/broken")).json()["problem"] == "line 3 is wrong"


async def test_an_agent_that_only_the_workspace_may_have_is_left_to_the_drone(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    register(store, "a", Capability(name="master"), root=str(tmp_path))
    order = {"prompt": "x", "agent": "historian", "workspace": str(tmp_path)}
    refused = await api.post(ORDERS, json=order)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "agent")
    (tmp_path / ".mcc" / "agents").mkdir(parents=True)
    (tmp_path / ".mcc" / "agents" / "historian.md").write_text("---\nname: historian\n---\nx")
    assert (await api.post(ORDERS, json=order)).status_code == 201
    elsewhere = {**order, "workspace": str(tmp_path / "on-the-drones-machine")}
    assert (await api.post(ORDERS, json=elsewhere)).status_code == 201


async def test_a_verifier_that_only_the_workspace_may_have_is_left_to_the_drone(
    api: httpx.AsyncClient, store: Store, tmp_path: Path
) -> None:
    register(store, "a", Capability(name="master"), root=str(tmp_path))
    (tmp_path / ".mcc" / "agents").mkdir(parents=True)
    (tmp_path / ".mcc" / "agents" / "historian.md").write_text("---\nname: historian\n---\nx")
    order = {"prompt": "x", "workspace": str(tmp_path)}
    assert (await api.post(ORDERS, json={**order, "verify": {"agent": "historian"}})).status_code == 201
    for agent in ("master", "historian"):
        refused = await api.post(ORDERS, json={**order, "agent": agent, "verify": {"agent": "nobody"}})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "verify.agent")


async def test_rules_are_checked_against_what_the_file_of_the_agent_asks_for(
    api: httpx.AsyncClient, store: Store
) -> None:
    register(store, "a", Capability(name="review", agent=sheet(store, "Be strict.")), Capability(name="broken"))
    order = {"prompt": "x", "agent": "review", "rules": [{"cel": "result.length > 3"}]}
    refused = await api.post(ORDERS, json=order)
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "rules[0].cel")
    assert "no key 'length'" in refused.json()["detail"]
    assert "Without result_schema the result is a report" in refused.json()["detail"]
    assert (await api.post(ORDERS, json={**order, "rules": [{"cel": "result.summary != ''"}]})).status_code == 201
    register(store, "b", Capability(name="review"))
    assert (await api.post(ORDERS, json=order)).status_code == 201
    free = sheet(store, "As you like.")
    free = free.model_copy(update={"definition": free.definition.model_copy(update={"result": {}})})
    register(store, "c", Capability(name="free", agent=free))
    for agent in ("broken", "free"):
        assert (await api.post(ORDERS, json={**order, "agent": agent})).status_code == 201
