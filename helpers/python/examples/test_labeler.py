"""Tests a controller with Holdfast."""

import pytest
from kubernetes import client


def label_config_maps(api: client.CoreV1Api, namespace: str) -> None:
    """One pass of a controller: it labels each ConfigMap, and tries again after a conflict."""
    for settings in api.list_namespaced_config_map(namespace, label_selector="seen!=true").items:
        while True:
            settings.metadata.labels = {"seen": "true"}
            try:
                api.replace_namespaced_config_map(settings.metadata.name, namespace, settings)
                break
            except client.ApiException as error:
                if error.status != 409:
                    raise
                settings = api.read_namespaced_config_map(settings.metadata.name, namespace)


@pytest.fixture
def api(holdfast_client):
    return client.CoreV1Api(holdfast_client)


def test_labeler_retries_after_conflict(holdfast_server, api, holdfast_namespace):
    settings = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="settings"))
    api.create_namespaced_config_map(holdfast_namespace, settings)
    # The first update fails with a conflict.
    fault = holdfast_server.add_fault(
        {"error": {"code": 409}}, match={"verbs": ["update"], "resource": "configmaps"}, count=1
    )

    label_config_maps(api, holdfast_namespace)

    labelled = api.read_namespaced_config_map("settings", holdfast_namespace)
    assert labelled.metadata.labels == {"seen": "true"}
    assert holdfast_server.fault(fault["id"])["status"]["fired"] == 1
