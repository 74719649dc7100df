"""The command `mcc orders call`: what a model was asked with."""

from typing import Annotated

import typer

from mcc.cli.orders import OrderId
from mcc.cli.server import ServiceCall


def call(
    service: ServiceCall,
    order_id: OrderId,
    seq: Annotated[
        int | None, typer.Argument(help="The entry with which the call began; left out: they are listed.", min=1)
    ] = None,
) -> None:
    """What a model was asked with: system prompt, tools, messages, each with the entry that it came from.

    Example: mcc orders call @last 4
    """
    from mcc.contracts.model_facts import ModelStarted
    from mcc.view.model_calls import request_lines
    from mcc.view.paging import show_paged
    from mcc.view.tables import print_table

    orders = service.client.orders
    if seq is not None:
        pages = [orders.model_request(order_id, seq)]
        while (cursor := pages[-1].next_cursor) is not None:
            pages.append(orders.model_request(order_id, seq, cursor=cursor))
        messages = tuple(message for page in pages for message in page.messages)
        if not service.printed(pages[0].model_copy(update={"messages": messages, "next_cursor": None})):
            show_paged(request_lines(order_id, pages))
        return
    entries = orders.journal(order_id, kinds=[ModelStarted.kind])
    calls = [(entry, entry.data) for entry in entries if isinstance(entry.data, ModelStarted)]
    told = [
        {"seq": entry.seq, "agent": entry.agent, "model": asked.model, "round": asked.round} for entry, asked in calls
    ]
    if not service.printed(told):
        rows = [tuple(row.values()) for row in told]
        print_table(("ENTRY", "AGENT", "MODEL", "ROUND"), rows, empty="No agent of this order has asked a model.")
