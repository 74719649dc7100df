"""Connections to PostgreSQL, directly or through a pooler, on each of which the settings that MCC needs are in force.

A setting travels where it is kept: with the connection (`options`), after connecting (`session`), or at the beginning
of each transaction (`transaction`), because a pooler may give every transaction to another of its connections.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.dialects.postgresql.base import PGCompiler
from sqlalchemy.engine import URL, Connection, Engine

from mcc.configuration.database import DatabaseAccess, UnreadableOptions, settings_in
from mcc.store.database.errors import StoreUnavailable, Unfit

PLANNER = {
    # Statements are planned once, not for each set of values: planning takes longer than most of them take to run.
    "plan_cache_mode": "force_generic_plan",
    # A plan made while a table was small is kept until the server has analyzed the table: without these two, each row
    # of a long queue would be compared with all others.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
}
"""Settings without which statements are slow, and right."""

PROMISED = {
    "idle_in_transaction_session_timeout": "5s",
    "statement_timeout": "15s",
    "default_transaction_isolation": "read committed",
}
"""Settings on which guarantees rest; `lock_timeout` is another."""

ARGUMENTS = {
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
}
"""TCP settings that give a dead server up within about six seconds, half the time of a lease."""

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED"
LOST = frozenset({"25006", "55000", "57P01", "57P02", "57P03", "57P04", "57P05"})
"""SQLSTATEs of a connection that leads to the wrong server, or to one that goes: a standby, a shutdown, a session that
was ended. The same statement may succeed on a new connection, never on this one."""

POOLED = frozenset({"08P01", "26000", "42P05"})
"""SQLSTATEs for statements that were prepared on another of the pooler's connections, and for a refused parameter."""

READ_WRITE = "read-write"
_UNKNOWN_SETTING = "unrecognized configuration parameter"
_REFUSED_PARAMETER = "unsupported startup parameter"
_OPENING = "mcc_opening"
_MILLISECONDS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))


@dataclass(frozen=True, slots=True)
class Opening:
    """What begins each transaction of a connection whose settings are kept no longer: a statement and its values."""

    text: str
    values: Sequence[str]


def opening_of(connection: Connection) -> Opening | None:
    """None where settings are kept for as long as the connection."""
    found: Opening | None = connection.info.get(_OPENING)
    return found


class PostgresSessions:
    """How the connections of one engine are made, and what was found out about the way to the server.

    `mode` is "none", "session" or "transaction". `pooled`: a pooler was recognised, or named. `ungranted`: settings of
    the planner that the latest connection was not given.
    """

    def __init__(self, access: DatabaseAccess, settings: Mapping[str, str], options: str) -> None:
        """`options`: those of the address; `settings` win over them."""
        self.access = access
        self.mode = "none" if access.pooler == "auto" else access.pooler
        self.ungranted: Sequence[str] = ()
        self._settings = settings
        self._options = options
        self._seen = False
        self._way: tuple[Any, Sequence[Any], Mapping[str, Any]] | None = None

    @property
    def pooled(self) -> bool:
        return self._seen or self.mode != "none"

    def connect(self, dialect: Any, record: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """A connection of the driver. Raises `Unfit`, and the driver's errors."""
        self._way = dialect, arguments, named
        while True:
            mode = self.mode
            options = " ".join([self._options, *_as_options(self._settings)]).strip() if mode == "none" else ""
            try:
                # An empty `options` and not none: libpq would take PGOPTIONS of the environment.
                raw = dialect.connect(*arguments, **{**named, "options": options})
            except dialect.loaded_dbapi.Error as error:
                if _UNKNOWN_SETTING in str(error):
                    line = str(error).strip().splitlines()[-1]
                    raise Unfit(f"the server is too old, MCC needs PostgreSQL 12 or newer ({line})") from error
                if mode != "none" or _REFUSED_PARAMETER not in str(error):
                    raise
                self._suspect("it refuses settings that are given with a connection (options)", error)
                continue
            try:
                opening = self._settle(raw, mode)
            except BaseException:
                raw.close()
                raise
            # The settling may have found out a pooler: then this connection was opened in the wrong way, and the loop
            # opens another.
            if self.mode == mode:
                if opening is not None:
                    record.info[_OPENING] = opening
                return raw
            raw.close()

    def answers(self) -> bool:
        """Whether a new connection, to whichever server is there, answers a statement; False before the first one."""
        if self._way is None:
            return False
        dialect, arguments, named = self._way
        try:
            with dialect.connect(*arguments, **{**named, "target_session_attrs": "any"}) as raw:
                raw.execute("SELECT 1", prepare=False)
        except dialect.loaded_dbapi.Error:
            return False
        return True

    def is_lost(self, error: Exception) -> bool:
        """Whether this error of a statement means that its connection, and those made before it, should be closed."""
        state = getattr(error, "sqlstate", None)
        # Statements that somebody else prepared show a pooler that shares connections, which opening one did not.
        if state in POOLED and self.access.pooler == "auto":
            self.mode = "transaction"
        return state in LOST or state in POOLED

    def _suspect(self, why: str, error: Exception | None = None) -> None:
        """Go on in transaction mode, or raise `Unfit` where the operator named another one."""
        self._seen = True
        if self.access.pooler != "auto":
            raise Unfit(
                f"a connection pooler is in front of the database ({why}), and database_pooler is "
                f"{self.access.pooler}: set MCC_DATABASE_POOLER to auto, transaction or session"
            ) from error
        self.mode = "transaction"

    def _settle(self, raw: Any, mode: str) -> Opening | None:
        """Bring the settings into force on a new connection and read them back. Raises `Unfit`."""
        # Imported here: psycopg is installed only for PostgreSQL.
        import psycopg

        opening = self._opening(local=True) if mode == "transaction" else None
        raw.autocommit = True
        if opening is not None:
            # For transactions that psycopg begins; those of `mcc.store.database.drivers` begin with `BEGIN`.
            raw.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            if not self.access.prepared:
                raw.prepare_threshold = None
            with raw.pipeline():
                raw.execute(BEGIN, prepare=False)
                raw.execute(opening.text, opening.values, prepare=False)
                answer = raw.execute(self._question(), prepare=False)
                raw.execute("COMMIT", prepare=False)
        else:
            if mode == "session":
                after = self._opening(local=False)
                raw.execute(after.text, after.values, prepare=False)
            # A statement by itself: a pooler that keeps nothing between transactions is found out so.
            answer = raw.execute(self._question(), prepare=False)
        raw.autocommit = False
        pid, *settings_found = answer.fetchone()
        self._seen |= pid != raw.info.backend_pid
        wanted = {**self._wanted(), "transaction_isolation": "read committed"}
        missing = [
            name
            for (name, value), setting_found in zip(wanted.items(), settings_found, strict=True)
            if setting_found != value
        ]
        promised = [name for name in missing if name not in PLANNER]
        self.ungranted = [name for name in missing if name in PLANNER]
        if mode == "none" and self._seen:
            self._suspect("the process that answers is not the one that was connected to")
        elif promised and mode == "none" and self.access.pooler == "auto":
            self._suspect("settings given with a connection are not in force")
        elif promised:
            raise Unfit(
                f"the server does not keep the settings that MCC needs ({', '.join(promised)}), as a connection pooler "
                f"in transaction mode does, and database_pooler is {self.access.pooler}: "
                "set MCC_DATABASE_POOLER=transaction"
            )
        return opening

    def _wanted(self) -> Mapping[str, str]:
        return {name: value for name, value in self._settings.items() if name != "default_transaction_isolation"}

    def _question(self) -> str:
        names = (*self._wanted(), "transaction_isolation")
        return f"SELECT pg_backend_pid(), {', '.join(f'current_setting({name!r})' for name in names)}"

    def _opening(self, *, local: bool) -> Opening:
        """Raises `Unfit` for options that are no settings."""
        try:
            requested = settings_in(self._options)
        except UnreadableOptions as error:
            raise Unfit(f"{error}: take it out of MCC_DATABASE_URL") from error
        # The isolation of a transaction is in its BEGIN.
        settings = {**requested, **(self._wanted() if local else self._settings)}
        parts = ", ".join(f"set_config(%s, %s, {'true' if local else 'false'})" for _ in settings)
        return Opening(f"SELECT {parts}", [word for pair in settings.items() for word in pair])


def _as_options(settings: Mapping[str, str]) -> list[str]:
    return [f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in settings.items()]


def _spelt(milliseconds: int) -> str:
    """A duration as PostgreSQL shows it: in the largest unit that it is a multiple of."""
    unit, size = next((unit, size) for unit, size in _MILLISECONDS if milliseconds % size == 0)
    return f"{milliseconds // size}{unit}"


def opened_postgres(
    access: DatabaseAccess, url: URL, connections: int, patience: float
) -> tuple[Engine, PostgresSessions]:
    """The engine for an address that `normal_url` returned, and how its connections are made. `patience`: seconds to
    wait for a lock, a free connection or a new one."""
    settings = {**PLANNER, **PROMISED, "lock_timeout": _spelt(max(1, round(patience * 1_000)))}
    sessions = PostgresSessions(access, settings, str(url.query.get("options", "")))
    try:
        engine = sa.create_engine(
            url.difference_update_query(["options", "client_encoding"]),
            pool_size=connections,
            max_overflow=connections,
            pool_timeout=patience,
            connect_args={
                **ARGUMENTS,
                "connect_timeout": max(2, round(patience)),
                "application_name": "mcc",
                # Whatever the environment and the role say: text is exchanged as UTF-8.
                "client_encoding": "utf8",
                # Of several hosts the one that can be written; of one address, never a standby behind it.
                "target_session_attrs": url.query.get("target_session_attrs", READ_WRITE),
            },
        )
    except ModuleNotFoundError as error:
        raise StoreUnavailable("PostgreSQL needs psycopg: install the extra `mcc[postgres]`") from error
    engine.dialect.statement_compiler = _Limiting
    usual = engine.dialect.is_disconnect

    def is_disconnect(error: Any, raw: Any, cursor: Any) -> bool:
        return sessions.is_lost(error) or usual(error, raw, cursor)

    engine.dialect.is_disconnect = is_disconnect  # type: ignore[assignment, method-assign]
    event.listen(engine, "do_connect", sessions.connect)
    event.listen(engine, "begin", _open_transaction)
    return engine, sessions


def _open_transaction(connection: Connection) -> None:
    """Begin a transaction of SQLAlchemy with its settings, where no connection keeps them."""
    opening, raw = opening_of(connection), connection.connection.driver_connection
    # A connection without transactions is that of a `database.direct.Link`, whose driver opens each by itself.
    if opening is None or raw is None or raw.autocommit:
        return
    try:
        raw.execute(opening.text, opening.values, prepare=False)
    except connection.dialect.loaded_dbapi.Error as error:
        connection._handle_dbapi_exception(error, opening.text, None, None, None)


class _Limiting(PGCompiler):
    """Renders the number of a LIMIT into the statement: without it, a plan for all values expects a tenth of the table
    to be read."""

    def limit_clause(self, select: Any, **options: Any) -> str:
        clause, limited = select._limit_clause, super().limit_clause
        if clause is None or select._offset_clause is not None or not select._simple_int_clause(clause):
            return str(limited(select, **options))  # type: ignore[no-untyped-call]
        return f"\n LIMIT {self.process(clause.render_literal_execute(), **options)}"
