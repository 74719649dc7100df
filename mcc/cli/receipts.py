"""This room is for the receipt of a control on this terminal: that it was kept, and, for who waits, what came of it."""

import time
from typing import TYPE_CHECKING

from mcc.cli.options import DONE, FAILED, say
from mcc.cli.printing import clock, print_json

if TYPE_CHECKING:
    from mcc.client import MCC
    from mcc.contracts.control import Control, Receipt

LOOK_SECONDS = 0.3


def answer(client: "MCC", order_id: str, what: str, receipt: "Receipt", *, wait: bool, as_json: bool) -> int:
    """Print the receipt, or with `wait` the outcome when there is one; answers the exit code."""
    if not wait:
        if as_json:
            print_json(receipt)
        else:
            print(f"{what} requested at {clock(receipt.requested_at)} (receipt {receipt.id})")
        return DONE
    control = _settled(client, order_id, receipt.id)
    if as_json:
        print_json(control)
    elif control.refused is None:
        print(f"{what} applied at entry {control.applied_seq}")
    else:
        say(f"{what} refused: {control.refused}")
    return DONE if control.refused is None else FAILED


def _settled(client: "MCC", order_id: str, control_id: str) -> "Control":
    """Every control is settled at the latest when its order ends."""
    while True:
        control = next(one for one in client.orders.controls(order_id) if one.id == control_id)
        if not control.open:
            return control
        time.sleep(LOOK_SECONDS)
