"""In the proxy: what an order may reach, and the way out of one program of it."""

from collections.abc import Iterable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

from drone.egress.plan import Given, GivenSecret, Plan, missing_for
from drone.egress.secrets import Secret, Secrets
from mcc.addresses import AddressRule, Endpoint, HostList, Refused, Resolve, endpoint_of
from mcc.addresses.rule import Dial, itself

if TYPE_CHECKING:
    from drone.egress.authority import Authority

MOST_DENIED = 20
"""Names that are told."""


def rule_of(plan: Plan, resolve: Resolve, dial: Dial = itself) -> AddressRule:
    """Raises `Refused`."""
    own, private = map(endpoint_of, plan.own), map(endpoint_of, plan.allow_private)
    return AddressRule(resolve, own=own, allow_private=private, dial=dial)


class Order:
    """One order's share of the plan: what it may reach, its own stand-ins, its own authority."""

    def __init__(self, plan: Plan, rule: AddressRule) -> None:
        self.hosts = HostList(plan.allow)
        self.trusted = plan.trusted
        self.rule = rule
        kept = [one for one in plan.secrets if not one.problem]
        usable = [] if missing_for(kept) else kept
        stand_ins = {one.variable: f"mcc_stand_in_{token_hex(16)}" for one in usable}
        self.secrets = Secrets(_secret(one, stand_ins[one.variable]) for one in usable)
        self.authority = _authority(usable) if usable else None
        certificate = "" if self.authority is None else self.authority.certificate.decode()
        self.given = Given(stand_ins, certificate, "; ".join(plan.problems))


def _authority(secrets: Sequence[GivenSecret]) -> "Authority":
    # Loaded by those alone who have a secret: it takes some 30 ms and 10 MB.
    from drone.egress.authority import Authority

    hosts = dict.fromkeys(entry for one in secrets for entry in one.hosts)
    return Authority(endpoint_of(host.removeprefix("*."), 443).host for host in hosts)


class Denied(Exception):
    """The program is told so, in this sentence."""


class Way:
    """The way out of one program. `only` are lists that the order and its agents made of what they may reach: a host is
    reached where every one of them, and the operator's, names it."""

    def __init__(self, order: Order, only: Iterable[Sequence[str]] = ()) -> None:
        self.order = order
        self._lists = (order.hosts, *map(HostList.lenient, only))
        self._denied: dict[str, None] = {}

    @property
    def denied(self) -> Sequence[str]:
        """Each once, in the order in which it was asked for."""
        return list(self._denied)

    def deny(self, asked: str) -> None:
        if len(self._denied) < MOST_DENIED:
            self._denied[asked[:300]] = None

    async def reached(self, endpoint: Endpoint) -> Sequence[Endpoint]:
        """The addresses to connect to. Raises `Denied`. A name that is not allowed is not even looked up: the question
        itself would carry it out."""
        try:
            if not all(names.covers(endpoint) for names in self._lists):
                raise Refused(f"{endpoint} is not allowed. {self._allowed()}")
            return await self.order.rule.resolve(endpoint)
        except Refused as error:
            self.deny(str(endpoint))
            raise Denied(f"{error} Nothing was sent.") from error

    def _allowed(self) -> str:
        names = self._lists[-1].names
        shown = ", ".join(names[:20]) or "none"
        return f"Hosts that may be reached from here: {shown}{', …' if len(names) > 20 else ''}."


def _secret(given: GivenSecret, stand_in: str) -> Secret:
    return Secret(given.value.encode("utf-8", "surrogateescape"), stand_in.encode(), HostList(given.hosts, (443,)))
