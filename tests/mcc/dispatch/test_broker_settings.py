import ssl

import pytest

from mcc.dispatch.broker import (
    FOREIGN,
    DispatchUnavailable,
    RedisAt,
    celery_settings,
    celery_url,
    client_url,
    make_app,
    queue_keys,
    translated,
)


@pytest.mark.parametrize(
    ("written", "for_celery", "for_client"),
    [
        ("redis://h:6379/2", "redis://h:6379/2", "redis://h:6379/2"),
        ("rediss://u:p@h/0", "rediss://u:p@h/0", "rediss://u:p@h/0"),
        ("unix:///run/r.sock", "redis+socket:///run/r.sock?virtual_host=0", "unix:///run/r.sock"),
        ("unix:///run/r.sock?db=3", "redis+socket:///run/r.sock?virtual_host=3", "unix:///run/r.sock?db=3"),
        (
            "redis+socket://:secret@/run/r.sock?virtual_host=3",
            "redis+socket://:secret@/run/r.sock?virtual_host=3",
            "unix://:secret@/run/r.sock?db=3",
        ),
    ],
)
def test_every_form_of_address_is_understood(written: str, for_celery: str, for_client: str) -> None:
    assert (celery_url(written), client_url(written)) == (for_celery, for_client)


def test_only_json_is_taken_and_results_are_not_kept() -> None:
    settings = celery_settings(RedisAt("redis://h/0"), ["default", "slow"])
    assert settings["accept_content"] == ["json"]
    assert settings["task_serializer"] == settings["event_serializer"] == "json"
    assert settings["task_ignore_result"] is True
    assert settings["result_backend"] is None
    assert settings["task_acks_late"] is False


def test_only_declared_queues_can_be_used() -> None:
    settings = celery_settings(RedisAt("redis://h/0"), ["default", "slow"])
    assert settings["task_create_missing_queues"] is False
    assert [queue.name for queue in settings["task_queues"]] == ["default", "slow"]  # type: ignore[attr-defined]
    assert settings["task_default_queue"] == "default"


def test_a_worker_hoards_nothing_and_notices_a_dead_broker() -> None:
    settings = celery_settings(RedisAt("redis://h/0"), ["default"])
    assert (settings["worker_prefetch_multiplier"], settings["worker_disable_prefetch"]) == (1, True)
    transport = settings["broker_transport_options"]
    assert isinstance(transport, dict)
    wanted = {
        "socket_timeout": 15,
        "socket_connect_timeout": 5,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "retry_on_timeout": True,
        "global_keyprefix": "mcc:",
        "queue_order_strategy": "priority",
    }
    assert {key: transport[key] for key in wanted} == wanted


def test_an_encrypted_broker_must_show_its_certificate() -> None:
    assert celery_settings(RedisAt("rediss://h/0"), ["q"])["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    assert "broker_use_ssl" not in celery_settings(RedisAt("rediss://h/0?ssl_cert_reqs=none"), ["q"])
    assert "broker_use_ssl" not in celery_settings(RedisAt("redis://h/0"), ["q"])


def test_an_application_of_ours_does_not_become_the_current_one() -> None:
    from celery import current_app

    assert make_app(RedisAt("redis://h/0"), ["default"]) is not current_app._get_current_object()


def test_a_sender_is_less_patient_than_a_worker() -> None:
    options = make_app(RedisAt("redis://h/0"), ["default"], seconds=1).conf.broker_transport_options
    assert (options["socket_timeout"], options["retry_on_timeout"]) == (1, False)
    assert options["global_keyprefix"] == "mcc:"


def test_a_queue_has_one_list_for_each_step_of_priority() -> None:
    assert queue_keys("default") == ["mcc:default", *(f"mcc:default\x06\x16{step}" for step in range(1, 10))]


@pytest.mark.parametrize("foreign", FOREIGN)
def test_errors_of_other_packages_become_ours(foreign: type[Exception]) -> None:
    with pytest.raises(DispatchUnavailable) as told, translated():
        raise foreign("no route to host")
    assert "no route to host" in str(told.value)
    assert "MCC_REDIS_URL" in str(told.value)
    assert isinstance(told.value.__cause__, foreign)
