"""A Django view that writes an order to Kafka, and its test. Needs ``pip install django pytest confluent-kafka``.

The view reads the address from Django's settings. A project has its own settings, and a fixture overrides the address.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer

django = pytest.importorskip("django")


def place_order(request: Any, number: int) -> Any:
    """Write the order of a request to Kafka."""
    from django.conf import settings
    from django.http import JsonResponse

    producer = Producer(settings.KAFKA)
    producer.produce("orders", json.dumps({"id": number}))
    producer.flush(30)
    return JsonResponse({"id": number}, status=202)


@pytest.fixture(scope="module")
def client() -> Any:
    """Configure Django, and return its test client."""
    from django.conf import settings

    if not settings.configured:
        settings.configure(ALLOWED_HOSTS=["testserver"], ROOT_URLCONF="test_django", KAFKA={})
        django.setup()
    from django.test import Client

    return Client()


def __getattr__(name: str) -> Any:
    # This module is also the URL configuration, which Django reads after the settings are configured.
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.urls import path

    return [path("orders/<int:number>", place_order)]


@pytest.mark.ottla(fresh=True)
def test_order_is_written(ottla: Any, client: Any) -> None:
    from django.test import override_settings

    with override_settings(KAFKA=ottla.client_config("confluent")):
        assert client.post("/orders/1").status_code == 202
    ottla.expect("orders", [{"id": 1}])
