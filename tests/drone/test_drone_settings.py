import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from drone.settings import ModelConfig, Settings, load
from mcc.configuration.file import TABLES
from mcc.configuration.settings import BadSettings

MODELS = """
[models.fast]
provider = "openai"
base_url = "http://127.0.0.1:8000/v1/"
model = "qwen3-coder"
api_key_env = "MY_KEY"
context_tokens = 128000
fallback = ["anthropic/claude-sonnet"]
[models.fast.price]
input = 0.2
output = 0.8
[defaults]
model = "fast"
[roles]
explore = "fast"
verify = "anthropic/claude-sonnet"
"""


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without MCC's variables, in a directory without its files."""
    for name in os.environ:
        if name.startswith(("MCC_", "DRONE_", "OPENAI_", "ANTHROPIC_", "OLLAMA_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "config" / "mcc").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return monkeypatch


def test_defaults_are_those_of_the_documents(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = load()
    assert settings.data_dir == tmp_path / "share" / "mcc"
    assert settings.database_url == f"sqlite:///{settings.data_dir / 'mcc.db'}"
    assert (settings.queues, settings.slots, settings.workspace_roots) == (("default",), 200, ())
    assert (settings.lease_seconds, settings.renew_seconds, settings.sweep_seconds) == (12, 1, 0.5)
    assert (settings.canary_seconds, settings.canary_patience_seconds, settings.poll_seconds) == (30, 20, 5)
    assert settings.name


def test_modules_of_functions_are_known_to_drones_too(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config" / "mcc" / "mcc.toml"
    file.write_text('[documents]\nfunctions = ["my_rules"]\n')
    assert load().documents.functions == ("my_rules",)
    file.write_text('[drone]\ndocuments = {functions = ["my_rules"]}\n')
    with pytest.raises(BadSettings, match=r"documents does not belong under \[drone\]"):
        load()


def test_arguments_win_over_the_environment_and_that_over_the_file(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config" / "mcc" / "mcc.toml").write_text('[drone]\nslots = 1\nname = "file"\nqueues = ["file"]\n')
    clean.setenv("DRONE_NAME", "environment")
    clean.setenv("DRONE_QUEUES", "one, two")
    settings = load(queues=("argument",), name=None)
    assert (settings.slots, settings.name, settings.queues) == (1, "environment", ("argument",))
    assert load().queues == ("one", "two")


def test_shared_settings_may_be_set_for_service_and_drones_at_once(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config" / "mcc" / "mcc.toml").write_text(
        '[mcc]\nredis_url = "redis://file/1"\nport = 1\nlease_seconds = 30\n'
    )
    clean.setenv("MCC_DATABASE_URL", "postgresql://h/mcc")
    clean.setenv("MCC_QUEUES", "shared")
    clean.setenv("DRONE_WORKSPACE_ROOTS", f"{tmp_path / 'a'}{os.pathsep}b")
    settings = load()
    assert (settings.redis_url, settings.database_url) == ("redis://file/1", "postgresql://h/mcc")
    assert (settings.queues, settings.lease_seconds) == (("shared",), 30)
    assert settings.workspace_roots == (tmp_path / "a", tmp_path / "b")


def test_an_empty_variable_counts_as_unset(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("DRONE_SLOTS", "")
    assert load().slots == 200


def test_models_are_read_from_the_file(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named = tmp_path / "elsewhere.toml"
    named.write_text(MODELS)
    clean.setenv("MCC_CONFIG", str(named))
    clean.setenv("MY_KEY", "s3cret")
    settings = load()
    fast = settings.models["fast"]
    assert (fast.base_url, fast.model, fast.fallback) == (
        "http://127.0.0.1:8000/v1",
        "qwen3-coder",
        ("anthropic/claude-sonnet",),
    )
    assert fast.price is not None and (fast.price.input, fast.price.output) == (0.2, 0.8)
    assert settings.defaults.model == "fast"
    assert settings.roles == {"explore": "fast", "verify": "anthropic/claude-sonnet"}
    assert settings.key("MY_KEY") == "s3cret"
    assert settings.key("NO_SUCH_KEY") is None


def test_the_file_may_stand_in_the_data_directory_and_the_user_s_own_comes_first(
    clean: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clean.setenv("MCC_DATA_DIR", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mcc.toml").write_text("[drone]\nslots = 3\n")
    assert load().slots == 3
    (tmp_path / "config" / "mcc" / "mcc.toml").write_text("[drone]\nslots = 4\n")
    assert load().slots == 4


def test_a_key_is_never_printed(clean: pytest.MonkeyPatch) -> None:
    settings = load(keys={"OPENAI_API_KEY": SecretStr("s3cret")})
    assert settings.key("OPENAI_API_KEY") == "s3cret"
    assert "s3cret" not in f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"


@pytest.mark.parametrize(
    ("toml", "sentence"),
    [
        ("[drone]\nslots = 0\n", "slots"),
        ("[drone]\nslot = 3\n", "slot"),
        ("[drone\n", "cannot be read"),
        ("[drone]\nlease_seconds = 1.5\n", "lease_seconds"),
        ("[drone]\nredis_url = 'amqp://h'\n", "redis_url"),
        ("[models.m]\nprovider = 'openai'\n", "model ="),
        ("[models.m]\nprovider = 'skynet'\n", "models.m.provider"),
        ("[models.m]\nprovider = 'offline'\napi_key = 'x'\n", "models.m.api_key"),
        ("[models.m]\nprovider = 'offline'\napi_key_env = 'sk-1 2'\n", "models.m.api_key_env"),
        ("[models.m]\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'file:///x'\n", "http"),
        ("[models.m]\nprovider = 'offline'\nthinkng = 'low'\n", 'models.m.thinkng: there is no .*"thinking"'),
        ("[models.m]\nprovider = 'offline'\n[models.m.price]\nimput = 1\noutput = 1\n", 'imput: .*"input"'),
        ("[defaults]\nmodl = 'offline'\n", 'mcc.toml, line 2: defaults.modl: .*"model"'),
        ("[models.m]\nprovider = 'offline'\nproxy = 'http://me:secret@proxy.test'\n", "models.m.proxy"),
        ("[models.m]\nprovider = 'offline'\nextra_headers = {'X-A' = \"a\\r\\nb\"}\n", "extra_headers"),
        ("[models.m]\nprovider = 'offline'\nextra_body = {since = 2026-01-31}\n", "extra_body"),
        ("models = 3\n", "models"),
        ("[roles]\nexplore = 'fasst'\n[models.fast]\nprovider = 'offline'\n", 'explore: .* "fast"'),
        ("[roles]\nexplore = 'opnai/m'\n", "explore: there is no model 'opnai/m'"),
        ("[roles]\n'a b' = 'offline'\n", "roles"),
        ("[drone.roles]\na = 'offline'\n", "tables of their own"),
        ("drone = 3\n", "drone"),
    ],
)
def test_an_unusable_file_is_reported_in_a_sentence(
    clean: pytest.MonkeyPatch, tmp_path: Path, toml: str, sentence: str
) -> None:
    (tmp_path / "config" / "mcc" / "mcc.toml").write_text(toml)
    with pytest.raises(BadSettings, match=sentence):
        load()


def test_a_named_file_that_is_not_there_is_an_error(clean: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean.setenv("MCC_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(BadSettings, match="no such file"):
        load()


def test_settings_and_models_cannot_be_changed(clean: pytest.MonkeyPatch) -> None:
    settings = Settings()
    with pytest.raises(ValueError, match="frozen"):
        settings.slots = 3  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        ModelConfig(provider="offline").stream = False  # type: ignore[misc]


def test_settings_load_neither_celery_nor_redis_nor_sqlalchemy() -> None:
    code = (
        "import json, sys, drone.settings as s; s.load(); "
        "print(json.dumps([m for m in ('celery', 'kombu', 'redis', 'sqlalchemy') if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []


def test_a_misspelt_variable_is_reported_with_the_nearest_and_others_are_ignored(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("DRONE_COLOUR", "blue")
    load()
    clean.setenv("DRONE_SLOT", "1")
    with pytest.raises(BadSettings, match="DRONE_SLOTS"):
        load()


@pytest.mark.parametrize(("text", "said"), [("[modelz.x]", "models"), ("[drone.keys]\nA = 'b'", "api_key_env")])
def test_settings_that_do_not_belong_in_the_file_are_refused(
    clean: pytest.MonkeyPatch, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "config" / "mcc" / "mcc.toml").write_text(text)
    with pytest.raises(BadSettings, match=said):
        load()


def test_headers_that_carry_keys_are_secret_and_others_are_not() -> None:
    headers = {"Authorization": "Bearer harbour-harbour", "X-Api-Key": "anchorage", "X-Region": "south-of-it-all"}
    headers |= {"Proxy-Authorization": "Basic bGlnaHRob3VzZQ==", "Cookie": "a=lighthouse; b=keeper"}
    settings = Settings(models={"m": ModelConfig(provider="offline", extra_headers=headers)})
    keys = {"harbour-harbour", "anchorage", "bGlnaHRob3VzZQ==", "a=lighthouse; b=keeper"}
    assert keys <= settings.secrets() and "south-of-it-all" not in settings.secrets()
    assert "harbour" not in repr(settings)


def test_the_proxy_of_the_environment_is_used_only_where_the_table_says_so(clean: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "ALL_PROXY"):
        clean.delenv(name, raising=False)
        clean.delenv(name.lower(), raising=False)
    clean.setenv("HTTPS_PROXY", "http://proxy.test:3128")
    clean.setenv("NO_PROXY", "inside.test")
    settings, asks = load(), ModelConfig(provider="offline", proxy="environment")
    assert settings.proxy_of(ModelConfig(provider="offline"), "https://far.test/v1") is None
    assert settings.proxy_of(asks, "https://far.test/v1") == "http://proxy.test:3128"
    assert settings.proxy_of(asks, "https://inside.test/v1") == ""
    clean.setenv("HTTP_PROXY", "http://proxy.test:3128")
    clean.setenv("ALL_PROXY", "http://proxy.test:3128")
    assert settings.proxy_of(asks, "http://far.test/v1") is None, "by http the proxy would read the key"
    for here in ("https://127.0.0.1:8443/v1", "http://localhost:11434/v1", "https://[::1]/v1"):
        assert settings.proxy_of(asks, here) == ""
    named = ModelConfig(provider="offline", proxy="http://other.test:1")
    assert settings.proxy_of(named, "https://inside.test/v1") == "http://other.test:1"


def test_secrets_are_the_keys_of_models_and_the_passwords_of_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARBOUR_KEY", "harbour-key")
    settings = Settings(
        database_url="postgresql://mcc:p%40ss@db/mcc",
        redis_url="redis://:redis-word@cache/0",
        models={"harbour": ModelConfig(provider="openai", model="x", api_key_env="HARBOUR_KEY")},
        keys={"GIVEN": "given-key"},
    )
    assert settings.secrets() >= {"given-key", "harbour-key", "p@ss", "redis-word"}


def test_every_table_that_a_drone_reads_is_known_in_the_file() -> None:
    assert Settings.own_tables <= set(TABLES)
