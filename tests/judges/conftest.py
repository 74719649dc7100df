"""Fixtures of the judges: the stores of the conformance suite."""

from tests.conformance.store.conftest import clock as clock
from tests.conformance.store.conftest import emptied_postgres as emptied_postgres
from tests.conformance.store.conftest import open_postgres as open_postgres
from tests.conformance.store.conftest import postgres_server as postgres_server
from tests.conformance.store.conftest import postgres_url as postgres_url
from tests.conformance.store.conftest import scene as scene
