"""What a command asked the network for in vain: for the model that ran it, and for the record."""

from collections.abc import Mapping

from drone.egress.egress import ProxiedNetwork
from drone.tools.tool import ToolContext
from mcc.contracts.journal import AgentStep

REFUSED = "network_refused"


def refused_by(network: ProxiedNetwork | None) -> Mapping[str, object]:
    """For the answer of a command that has ended; nothing where nothing was refused."""
    if network is None:
        return {}
    denied = {"refused": list(network.denied)} if network.denied else {}
    return {**denied, **({"network_problem": network.problem} if network.problem else {})}


def note_refused(network: ProxiedNetwork | None, context: ToolContext) -> None:
    """A step of the record, once the command has ended."""
    if network is None or not network.denied or context.turn is None:
        return
    names = ", ".join(network.denied)
    said = f"a command asked for hosts that it may not reach, and was refused: {names}"
    context.turn.journal.note(context.origin, AgentStep(name=REFUSED, message=said))
