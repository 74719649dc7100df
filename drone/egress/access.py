"""What an order, and each of its programs, may reach, as the proxy decides it."""

from collections.abc import Iterable, Sequence
from secrets import token_hex
from typing import TYPE_CHECKING

from drone.egress.plan import SECRET_PORTS, ConfiguredSecret, EgressGrant, EgressPlan, missing_for
from drone.egress.secrets import Secret, Secrets
from mcc.addresses import AddressRefused, AddressRule, Endpoint, HostList, Resolve, endpoint_of
from mcc.addresses.rule import Dial, itself

if TYPE_CHECKING:
    from drone.egress.authority import Authority

MOST_DENIED = 20
"""Most denied hosts that are reported for one program."""


def rule_of(plan: EgressPlan, resolve: Resolve, dial: Dial = itself) -> AddressRule:
    """The rule for addresses under this plan. Raises `AddressRefused`."""
    own, private = map(endpoint_of, plan.own), map(endpoint_of, plan.allow_private)
    return AddressRule(resolve, own=own, allow_private=private, dial=dial)


class OrderAccess:
    """The access of one order: the hosts that it may reach, its own stand-ins, its own certificate authority."""

    def __init__(self, plan: EgressPlan, rule: AddressRule) -> None:
        self.hosts = HostList(plan.allow)
        self.trusted = plan.trusted
        self.rule = rule
        kept = [secret for secret in plan.secrets if not secret.problem]
        usable = [] if missing_for(kept) else kept
        stand_ins = {secret.variable: f"mcc_stand_in_{token_hex(16)}" for secret in usable}
        self.secrets = Secrets(
            Secret(
                secret.value.encode("utf-8", "surrogateescape"),
                stand_ins[secret.variable].encode(),
                HostList(secret.hosts, SECRET_PORTS),
            )
            for secret in usable
        )
        self.authority = _authority(usable) if usable else None
        certificate = "" if self.authority is None else self.authority.certificate.decode()
        self.grant = EgressGrant(stand_ins, certificate, "; ".join(plan.problems))


def _authority(secrets: Sequence[ConfiguredSecret]) -> "Authority":
    # Imported only when there is a secret: it takes some 30 ms and 10 MB.
    from drone.egress.authority import Authority

    hosts = dict.fromkeys(entry for one in secrets for entry in one.hosts)
    return Authority(endpoint_of(host.removeprefix("*."), 443).host for host in hosts)


class Denied(Exception):
    """The program may not reach this endpoint; the sentence is for the program."""


class ProgramAccess:
    """The access of one program. `only` are the lists of hosts of the order and its agents: a host may be reached when
    each of these lists, and the operator's, allows it."""

    def __init__(self, order: OrderAccess, only: Iterable[Sequence[str]] = ()) -> None:
        self.order = order
        self._lists = (order.hosts, *map(HostList.lenient, only))
        self._denied: dict[str, None] = {}

    @property
    def denied(self) -> Sequence[str]:
        """The denied hosts, each once, in the order of the requests."""
        return list(self._denied)

    def deny(self, asked: str) -> None:
        if len(self._denied) < MOST_DENIED:
            self._denied[asked[:300]] = None

    async def reached(self, endpoint: Endpoint) -> Sequence[Endpoint]:
        """The addresses to connect to. Raises `Denied`. A name that is not allowed is not even looked up: a DNS query
        can itself carry data out."""
        try:
            if not all(names.covers(endpoint) for names in self._lists):
                raise AddressRefused(f"{endpoint} is not allowed. {self._allowed_hosts()}")
            return await self.order.rule.resolve(endpoint)
        except AddressRefused as error:
            self.deny(str(endpoint))
            raise Denied(f"{error} Nothing was sent.") from error

    def _allowed_hosts(self) -> str:
        names = self._lists[-1].names
        shown = ", ".join(names[:20]) or "none"
        return f"Hosts that may be reached from here: {shown}{', …' if len(names) > 20 else ''}."
