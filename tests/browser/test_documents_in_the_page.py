"""Documents in the page: what is stale, held, in conflict; values that are written, undone and done again; outlines."""

import json

import pytest
from playwright.sync_api import expect

from mcc.contracts.callers import Actor
from mcc.contracts.inbox_facts import ApprovalRequested
from mcc.contracts.order import NewOrder, OrderKind
from mcc.documents.node import Node
from mcc.store.store import Store
from mcc.testing.hand_drone import HandDrone
from tests.browser.conftest import PHONE, WIDE, OpenPage
from tests.browser.seeds import seed_document


def node_at(store: Store, document_id: str, path: str) -> Node:
    state = store.documents.state(document_id)
    (node,) = (node for node in state.walk() if state.path(node) == path)
    return node


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
def test_a_value_in_conflict_is_kept_and_another_written(
    size: tuple[int, int], store: Store, open_page: OpenPage
) -> None:
    document = seed_document(store)
    page = open_page(f"documents/{document}", size=size)
    page.get_by_role("button", name="bed-1").click()
    title = page.get_by_role("row").filter(has_text="title")
    # What a person holds, what the agent had written, and what has changed since.
    for text in ("Herbs of the RLOgarrigue", "What grows without rain", '"a dry valley" → "a wet valley"'):
        expect(title).to_contain_text(text)
    title.get_by_role("button", name="Keep it").click()
    expect(title.get_by_role("button", name="Keep it")).to_have_count(0)
    assert node_at(store, document, "/bed-1").conflicts == {}
    plants = page.get_by_role("row").filter(has_text="plants")
    plants.get_by_role("button", name="Edit").click()
    plants.get_by_role("textbox").fill("15")
    plants.get_by_role("button", name="Save").click()
    expect(plants).to_contain_text("operator, version 10")
    assert node_at(store, document, "/bed-1").props["plants"] == 15
    plants.get_by_role("button", name="Give it to its agent").click()
    expect(plants.get_by_role("button", name="Give it to its agent")).to_have_count(0)
    assert not node_at(store, document, "/bed-1").provenance["props.plants"].held


def test_commands_are_undone_and_done_again_by_keys(store: Store, open_page: OpenPage) -> None:
    document = seed_document(store)
    page = open_page(f"documents/{document}?node=/")
    place = page.get_by_role("row").filter(has_text="place")
    expect(place).to_contain_text("a wet valley")
    page.keyboard.press("u")
    expect(place).to_contain_text("a dry valley")
    page.keyboard.press("Control+Shift+Z")
    expect(place).to_contain_text("a wet valley")
    # In a field, the browser undoes what was typed, and the document stays as it is.
    place.get_by_role("button", name="Edit").click()
    place.get_by_role("textbox").press("Control+z")
    place.get_by_role("textbox").fill("a cold valley")
    place.get_by_role("textbox").press("Control+Enter")
    expect(place).to_contain_text("a cold valley")
    expect(page.get_by_label("Document").last).to_contain_text("redo")
    page.get_by_role("button", name="Add a child").click()
    page.get_by_label("Its component").fill("bed")
    page.get_by_role("dialog").get_by_role("button", name="Add").click()
    page.get_by_role("button", name="bed-4").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("button", name="Remove it").click()
    expect(page.get_by_role("button", name="bed-4")).to_have_count(0)
    assert node_at(store, document, "/").metadata["place"] == "a cold valley"


def test_the_tree_is_folded_gone_through_by_keys_and_cut_to_what_is_to_do(store: Store, open_page: OpenPage) -> None:
    page = open_page(f"documents/{seed_document(store)}")
    nodes = page.get_by_role("region", name="Nodes")
    expect(nodes.get_by_role("button", name="bed-3")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.wait_for_url("**node=%2Fbed-2")
    detail = page.get_by_role("region", name="Node", exact=True)
    expect(detail).to_contain_text("gate_failed")
    expect(detail).to_contain_text("Use steps of five.")
    nodes.get_by_role("button", name="Fold /", exact=True).click()
    expect(nodes.get_by_role("button", name="bed-3")).to_have_count(0)


def test_what_is_to_do_is_generated_by_an_order_of_its_own(store: Store, open_page: OpenPage) -> None:
    document = seed_document(store)
    page = open_page(f"documents/{document}")
    expect(page.get_by_role("button", name="bed-1")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.get_by_label("Only the outline").check()
    page.get_by_role("dialog").get_by_role("button", name="Generate").click()
    page.wait_for_url("**/orders/*")
    order = store.orders.get(page.url.rpartition("/")[2])
    assert order.kind is OrderKind.GENERATE and order.document_id == document
    assert order.generation is not None and order.generation.outline


def test_an_outline_is_approved_with_its_nodes_in_sight(store: Store, open_page: OpenPage) -> None:
    document = seed_document(store)
    placed = store.orders.place(
        NewOrder(kind=OrderKind.GENERATE, document_id=document), by=Actor("operator"), on_ask="wait"
    )
    held = HandDrone(store).claim(placed.order.id)
    held.start("Generate it")
    held.write(ApprovalRequested(approval_id="outline-1", call_id="", tool="outline", digest="sha256:outline"))
    page = open_page(f"documents/{document}")
    page.get_by_role("link", name="Decide").click()
    asked = page.get_by_role("region", name="asks for its outline")
    for name in ("bed-1", "bed-3"):
        expect(asked.get_by_role("button", name=name)).to_be_visible()
    expect(asked).to_have_attribute("aria-busy", "false")
    asked.get_by_role("button", name="Approve once").click()
    expect(asked).to_contain_text("Approved")


def test_a_document_is_exported(store: Store, open_page: OpenPage) -> None:
    document = seed_document(store)
    page = open_page(f"documents/{document}")
    with page.expect_download() as saved:
        page.get_by_role("link", name="json", exact=True).click()
    assert json.loads(saved.value.path().read_text())["nodes"]
