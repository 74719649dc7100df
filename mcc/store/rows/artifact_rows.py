"""Rows of the files of orders, inside transactions that others open: given to an order, and let go with its journal."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from mcc.store.database.artifact_tables import ARTIFACT_USES, ARTIFACTS
from mcc.store.database.columns import among
from mcc.store.database.errors import CannotAttach

_HELD = (
    sa.select(ARTIFACTS.c.id, ARTIFACTS.c.principal)
    .where(among(ARTIFACTS.c.id, "wanted"), ARTIFACTS.c.digest != "")
    .order_by(ARTIFACTS.c.id)
    .with_for_update(read=True)
)
_LET_GO = sa.delete(ARTIFACT_USES).where(ARTIFACT_USES.c.order_id == sa.bindparam("of"))

OPERATOR = "operator"
"""The principal who may read everybody's files, and give them to orders."""


def may_use(owner: str, principal: str) -> bool:
    """Whether a principal may use a file that `owner` uploaded."""
    return principal in (owner, OPERATOR)


def held_for(connection: Connection, wanted: Sequence[str], principal: str, *, all_of_them: bool) -> Sequence[str]:
    """The ids of these files, locked against removal until the transaction ends.

    `all_of_them`: raise `CannotAttach` for one that is not there, or is another's; else that one is left out.
    """
    if not wanted:
        return ()
    owners = {row.id: row.principal for row in connection.execute(_HELD, {"wanted": sorted(set(wanted))})}
    usable = [file for file in dict.fromkeys(wanted) if file in owners and may_use(owners[file], principal)]
    if all_of_them and (missing := [file for file in wanted if file not in usable]):
        raise CannotAttach(
            f"attachments: there is no file {missing[0]} that this order could be given: it was never uploaded, or "
            "removed since"
        )
    return usable


def let_go(connection: Connection, order_id: str) -> None:
    """The order's journal goes, and with it its hold on its files."""
    connection.execute(_LET_GO, {"of": order_id})
