"""Budgets of a day as rows: what an order reserves when it is placed, and what it spent once it has ended.

Rows of `budget_days` are the last that a transaction locks, after sessions, orders and documents, and sorted: what is
to be settled is handed over until then (`mcc.store.database.last`).
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.contracts.budgets import BudgetOfDay, DayBudget, MoneyOfDay, OrdersOfDay
from mcc.contracts.callers import PERSON, SERVICE, Actor
from mcc.contracts.limits import Limits
from mcc.contracts.order import NewOrder, OrderKind, OrderOutcome
from mcc.contracts.shape import to_json
from mcc.store.database.direct import execute_later
from mcc.store.database.errors import BudgetUsedUp
from mcc.store.database.last import at_last, take_last
from mcc.store.database.tables import API_TOKENS, BUDGET_DAYS, BUDGET_RULES, ORDERS, PEOPLE, among
from mcc.store.rows.texts import parsed

MICROS = 1_000_000
"""Units of a US dollar in budgets."""

CENT = MICROS // 100
"""The least that an order gets by itself, where less is left than it usually reserves."""

MOST_MICROS = 10**15
"""As much is counted of one order, so that no figure can make a sum too large for its column."""

WITHOUT_MONEY = frozenset({OrderKind.REVERT, OrderKind.DELIVER})
"""Orders that call no model."""

TOKEN = "token:"
"""How the owner of a token's own budget begins, whose id follows."""

USUAL = "usual"

_PERSON = sa.select(PEOPLE.c.budget_json).where(PEOPLE.c.id == sa.bindparam("person")).scalar_subquery()
_OF_TOKEN = sa.select(API_TOKENS.c.budget_json).where(API_TOKENS.c.id == sa.bindparam("token")).scalar_subquery()
_RULE = {
    name: sa.select(BUDGET_RULES.c[name]).where(BUDGET_RULES.c.name == USUAL).scalar_subquery()
    for name in ("budget_json", "timezone")
}
_BUDGETS = sa.select(
    _PERSON.label("person"),
    _OF_TOKEN.label("token"),
    _RULE["budget_json"].label("usual"),
    _RULE["timezone"].label("timezone"),
)
_IS_DAY = (BUDGET_DAYS.c.owner == sa.bindparam("of"), BUDGET_DAYS.c.day == sa.bindparam("on"))
_DAY = sa.select(BUDGET_DAYS).where(*_IS_DAY)
_LOCK_DAY = _DAY.with_for_update()
_OPEN_DAY = sa.text(
    "INSERT INTO budget_days (owner, day, orders, reserved, spent) VALUES (:of, :on, 0, 0, 0) ON CONFLICT DO NOTHING"
)
_COUNT, _NEED, _MOST_ORDERS, _MOST_MICROS = (
    sa.bindparam(name, type_=sa.BigInteger) for name in ("count", "need", "most_orders", "most_micros")
)
_RESERVE = (
    sa.update(BUDGET_DAYS)
    .where(
        *_IS_DAY,
        BUDGET_DAYS.c.orders + _COUNT <= _MOST_ORDERS,
        sa.or_(_NEED == 0, BUDGET_DAYS.c.spent + BUDGET_DAYS.c.reserved + _NEED <= _MOST_MICROS),
    )
    .values(orders=BUDGET_DAYS.c.orders + _COUNT, reserved=BUDGET_DAYS.c.reserved + _NEED)
)
_SETTLE = (
    sa.update(BUDGET_DAYS)
    .where(*_IS_DAY)
    .values(
        reserved=BUDGET_DAYS.c.reserved - sa.bindparam("released", type_=sa.BigInteger),
        spent=BUDGET_DAYS.c.spent + sa.bindparam("cost", type_=sa.BigInteger),
    )
)
_RESERVED = sa.select(ORDERS.c.id, ORDERS.c.budget_day, ORDERS.c.reserved, ORDERS.c.budget_json).where(
    among(ORDERS.c.id, "ids"), ORDERS.c.budget_day.is_not(None)
)
_UNBOUNDED = 2**62


def micro_usd(usd: float) -> int:
    """US dollars as millionths, at most `MOST_MICROS`; what is no number or below 0 counts as 0."""
    return round(min(usd, MOST_MICROS / MICROS) * MICROS) if usd > 0 else 0


def day_of(at: datetime, timezone: str) -> tuple[str, datetime]:
    """The day that it is at `at` by the calendar of this time zone, and when the next one begins there."""
    zone = ZoneInfo(timezone)
    today = at.astimezone(zone).date()
    following = date.max if today == date.max else today + timedelta(days=1)
    # A midnight that the clock leaves out is the moment at which it does; of one that comes twice, the first counts.
    return today.isoformat(), datetime.combine(following, time(), zone).astimezone(UTC)


Place: TypeAlias = tuple[str, str]
"""The key of a row: owner and day."""


@dataclass(slots=True)
class Account:
    """A budget of one owner on one day, with what of it was used when it was read, and since then (`more_…`)."""

    owner: str
    day: str
    resets_at: datetime
    budget: DayBudget
    orders: int = 0
    reserved: int = 0
    spent: int = 0
    more_orders: int = 0
    more_reserved: int = 0

    @property
    def place(self) -> Place:
        return self.owner, self.day

    @property
    def left(self) -> int | None:
        """Millionths of a US dollar; None: any amount."""
        used = self.spent + self.reserved + self.more_reserved
        return None if self.budget.usd is None else micro_usd(self.budget.usd) - used

    @property
    def usual_need(self) -> int:
        """What an order reserves that names no amount."""
        share = (self.budget.usd or 0) / 10
        return micro_usd(share if self.budget.order_usd is None else self.budget.order_usd)

    @property
    def takes_order(self) -> bool:
        return self.budget.orders is None or self.orders + self.more_orders < self.budget.orders

    def read(self, row: Any) -> None:
        if row is not None:
            self.orders, self.reserved, self.spent = row.orders, row.reserved, row.spent

    def shown(self) -> BudgetOfDay:
        """As it was when it was read."""
        usd, orders = self.budget.usd, self.budget.orders
        spent, reserved = self.spent / MICROS, self.reserved / MICROS
        return BudgetOfDay(
            owner=self.owner,
            day=self.day,
            usd=None if usd is None else MoneyOfDay(limit=usd, spent=spent, reserved=reserved),
            orders=None if orders is None else OrdersOfDay(limit=orders, used=self.orders),
            resets_at=self.resets_at,
        )


@dataclass(frozen=True, slots=True)
class NewReservation:
    """An order that is about to be placed, `at` that time."""

    new: NewOrder
    by: Actor
    at: datetime


@dataclass(frozen=True, slots=True)
class Reserved:
    """What was reserved for an order: `need` millionths of a US dollar of each of these owners' budgets of that day.
    `limits`: those that the order has now; `requested`: those that its caller gave."""

    owners: Sequence[str]
    day: str
    need: int
    limits: Limits | None
    requested: Limits | None

    @property
    def columns(self) -> Mapping[str, Any]:
        """As the row of the order has it."""
        requested = None if self.told is None else self.told.model_dump(exclude_unset=True)
        document = to_json({"owners": self.owners, "requested": requested}).decode()
        return {"budget_day": self.day, "reserved": self.need, "budget_json": document}

    @property
    def told(self) -> Limits | None:
        """The limits that the caller gave, where others took their place."""
        if self.limits is self.requested:
            return None
        return Limits.model_construct() if self.requested is None else self.requested


def requested_limits(budget_json: str | None) -> Limits | None:
    """The limits that the caller of an order gave, where its budget changed them."""
    requested = parsed(budget_json)["requested"] if budget_json else None
    return None if requested is None else Limits.model_validate(requested)


def accounts_of(connection: Connection, by: Actor, at: datetime) -> Sequence[Account]:
    """The budgets that whoever acts has at this time, sorted by owner, without what is used of them."""
    principal, token_id = by.principal, by.token_id
    # The operator and those of ours have no budget; principals of other kinds say which one they are of.
    if ":" not in principal and token_id is None:
        return ()
    service = principal.removeprefix(SERVICE) if principal.startswith(SERVICE) else None
    person = principal.removeprefix(PERSON) if principal.startswith(PERSON) else None
    row = connection.execute(_BUDGETS, {"person": person, "token": service or token_id}).one()
    budgets: dict[str, str | None] = {}
    if ":" in principal:
        budgets[principal] = (row.token if service is not None else row.person) or row.usual
    if token_id is not None and token_id != service:
        budgets[TOKEN + token_id] = row.token
    day, resets_at = day_of(at, row.timezone or "UTC")
    accounts = (
        Account(owner, day, resets_at, DayBudget.model_validate(parsed(text)))
        for owner, text in sorted(budgets.items())
        if text is not None
    )
    return [account for account in accounts if account.budget.limits_anything]


def budget_of_day(connection: Connection, by: Actor, at: datetime) -> BudgetOfDay | None:
    """What is left today of the budget that is nearer to its end; None for who has none."""
    accounts = accounts_of(connection, by, at)
    for account in accounts:
        account.read(connection.execute(_DAY, {"of": account.owner, "on": account.day}).first())
    return min(accounts, key=_tightness).shown() if accounts else None


def _tightness(account: Account) -> tuple[float, float]:
    left, orders = account.left, account.budget.orders
    return math.inf if left is None else left, math.inf if orders is None else orders - account.orders


def reserve(connection: Connection, wishes: Sequence[NewReservation]) -> Sequence[Reserved | BudgetUsedUp | None]:
    """Reserve for each order in turn; None for one without a budget, the problem for one that is refused.

    What the transaction has ended so far is settled first. Afterwards it may lock nothing but rows that it inserts.
    """
    accounts: dict[Place, Account] = {}
    held: dict[tuple[Actor, datetime], Sequence[Account]] = {}
    for wish in wishes:
        if (wish.by, wish.at) not in held:
            of_wish = accounts_of(connection, wish.by, wish.at)
            held[wish.by, wish.at] = [accounts.setdefault(account.place, account) for account in of_wish]
    settling = _to_settle(connection, take_last(connection, _settle))
    if not accounts and not settling:
        return [None] * len(wishes)
    for owner, day in sorted({*accounts, *settling}):
        row = {"of": owner, "on": day}
        if connection.execute(_LOCK_DAY, row).first() is None:
            connection.execute(_OPEN_DAY, row)
            connection.execute(_LOCK_DAY, row).first()
    _write_settled(connection, settling)
    for (owner, day), account in accounts.items():
        account.read(connection.execute(_DAY, {"of": owner, "on": day}).first())
    answers = [_reserved(wish, held[wish.by, wish.at]) for wish in wishes]
    for _, account in sorted(accounts.items()):
        _write_reserved(connection, account)
    return answers


def _reserved(wish: NewReservation, accounts: Sequence[Account]) -> Reserved | BudgetUsedUp | None:
    """Take from these accounts what the order needs."""
    if not accounts:
        return None
    new, requested = wish.new, wish.new.limits
    if (full := next((account for account in accounts if not account.takes_order), None)) is not None:
        return _used_up(full, wish)
    with_money = [account for account in accounts if account.left is not None and new.kind not in WITHOUT_MONEY]
    need, limits = 0, requested
    if with_money:
        tightest = min(with_money, key=_tightness)
        left, stated = tightest.left or 0, requested.cost_usd if requested is not None else None
        usual = min(account.usual_need for account in with_money)
        if stated is None:
            need = left if usual > left >= CENT else usual
        elif stated > 0:
            # One call is paid whatever its order may cost, so of the smallest amounts not any number fits.
            need = max(micro_usd(stated), min(CENT, usual))
        if need > left:
            return _used_up(tightest, wish, need)
        stated_limits = requested.model_dump(exclude_unset=True) if requested is not None else {}
        money = {"cost_usd": need / MICROS if stated is None else stated, "unknown_price": "refuse"}
        limits = Limits.model_validate({**stated_limits, **money})
    for account in accounts:
        account.more_orders += 1
        account.more_reserved += need
    return Reserved([account.owner for account in accounts], accounts[0].day, need, limits, requested)


def _used_up(account: Account, wish: NewReservation, need: int = 0) -> BudgetUsedUp:
    if not account.takes_order:
        what = f"{account.orders:,} of {account.budget.orders:,} orders were placed"
    else:
        usd, spent, reserved = account.budget.usd or 0, account.spent / MICROS, account.reserved / MICROS
        what = f"of {usd:.10g} US dollars {spent:.10g} are spent and {reserved:.10g} reserved for unfinished orders"
        what += f", and this order takes {need / MICROS:.10g}"
    if account.more_orders:
        what += f"; {account.more_orders:,} of these orders would fit"
    whose = "this token" if account.owner.startswith(TOKEN) else account.owner
    begins = f"{account.resets_at:%Y-%m-%dT%H:%M:%SZ}"
    sentence = f"the budget of {whose} for {account.day} does not suffice: {what}; the next day's begins at {begins}"
    return BudgetUsedUp(sentence, account.shown(), (account.resets_at - wish.at).total_seconds())


def _write_reserved(connection: Connection, account: Account) -> None:
    if account.more_orders == 0:
        return
    most_orders, usd = account.budget.orders, account.budget.usd
    taken = {
        "of": account.owner,
        "on": account.day,
        "count": account.more_orders,
        "need": account.more_reserved,
        "most_orders": _UNBOUNDED if most_orders is None else most_orders,
        "most_micros": _UNBOUNDED if usd is None else micro_usd(usd),
    }
    if not connection.execute(_RESERVE, taken).rowcount:
        raise AssertionError(f"the locked budget of {account.owner} has changed")


def settle(connection: Connection, order_id: str, outcome: OrderOutcome) -> None:
    """Let the transaction that ends this order turn what it reserved into what it cost, at last."""
    cost = outcome.usage.cost_usd
    at_last(connection, _settle, (order_id, None if cost is None or math.isnan(cost) else micro_usd(cost)))


def _settle(connection: Connection, ended: Sequence[tuple[str, int | None]]) -> None:
    _write_settled(connection, _to_settle(connection, ended))


def _to_settle(connection: Connection, ended: Iterable[tuple[str, int | None]]) -> Mapping[Place, tuple[int, int]]:
    """What is released and what is spent, by row. An order of unknown cost has spent all that it reserved."""
    costs = dict(ended)
    sums: defaultdict[Place, tuple[int, int]] = defaultdict(lambda: (0, 0))
    if not costs:
        return sums
    for row in connection.execute(_RESERVED, {"ids": sorted(costs)}).all():
        cost = costs[row.id]
        for owner in parsed(row.budget_json)["owners"]:
            released, spent = sums[owner, row.budget_day]
            sums[owner, row.budget_day] = (released + row.reserved, spent + (row.reserved if cost is None else cost))
    return sums


def _write_settled(connection: Connection, settling: Mapping[Place, tuple[int, int]]) -> None:
    # In one sequence, as several transactions may settle the same rows.
    rows = [
        {"of": owner, "on": day, "released": released, "cost": spent}
        for (owner, day), (released, spent) in sorted(settling.items())
    ]
    if rows:
        execute_later(connection, _SETTLE, rows)
