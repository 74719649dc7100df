"""This room is for bringing the database of a family to the schema of this version before anybody uses it."""

from mcc.local.errors import UnusableDatabase


def upgrade_database(url: str) -> str | None:
    """Migrate the database at `url`; answers a line for people when there was anything to do.

    Raises `UnusableDatabase`.
    """
    from alembic.util import CommandError

    from mcc.store.errors import StoreError
    from mcc.store.migrate import schema_problem, upgrade

    problem: str | None = None
    try:
        problem = schema_problem(url)
        if problem is None:
            return None
        upgrade(url)
    except CommandError as error:
        raise UnusableDatabase(f"The database cannot be used: {problem}.") from error
    except (StoreError, OSError, ValueError) as error:
        if str(error) == problem:
            raise UnusableDatabase(f"The database cannot be used: {problem}.") from error
        raise UnusableDatabase(
            f"The database cannot be prepared ({error}): is it there, can it be written, does anyone hold it locked?"
        ) from error
    return f"The database was brought up to date (before: {problem.partition(':')[0]})."
