"""The official Python client against a server: typed, dynamic and watching. Its one argument is a kubeconfig; the server's
address comes in HOLDFAST_SERVER. It prints the name of each check that held and ends with an error at the first that did not."""

import os
import sys
import threading
import time

from kubernetes import client, config, dynamic, utils, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

NAMESPACE = "default"
PATIENCE = 60


def deployment(name, replicas):
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": {"suite": "python"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example.com/main:1"}]},
            },
        },
    }


def refused(code, call, *arguments, **keywords):
    try:
        call(*arguments, **keywords)
    except ApiException as refusal:
        assert refusal.status == code, (refusal.status, refusal.body)
        return refusal
    raise AssertionError(f"{call} was not refused")


def absent(call, *arguments):
    try:
        call(*arguments)
    except ApiException as refusal:
        assert refusal.status == 404, (refusal.status, refusal.body)
        return True
    return False


def typed_objects(api):
    core = client.CoreV1Api(api)
    body = client.V1ConfigMap(metadata=client.V1ObjectMeta(generate_name="typed-", labels={"suite": "python"}), data={"a": "1"})
    made = core.create_namespaced_config_map(NAMESPACE, body)
    name = made.metadata.name
    assert name.startswith("typed-") and made.metadata.creation_timestamp is not None
    patched = core.patch_namespaced_config_map(name, NAMESPACE, {"data": {"b": "2", "a": None}})
    assert patched.data == {"b": "2"}
    made.data = {"stale": "yes"}
    assert "the object has been modified" in refused(409, core.replace_namespaced_config_map, name, NAMESPACE, made).body
    assert [m.metadata.name for m in core.list_namespaced_config_map(NAMESPACE, label_selector="suite=python").items] == [name]
    deleted = core.delete_namespaced_config_map(name, NAMESPACE)
    assert deleted["status"] == "Success", deleted
    refused(404, core.read_namespaced_config_map, name, NAMESPACE)


def paged_lists(api):
    core = client.CoreV1Api(api)
    for index in range(7):
        body = client.V1Secret(metadata=client.V1ObjectMeta(name=f"page-{index}", labels={"page": "yes"}), string_data={"k": "v"})
        core.create_namespaced_secret(NAMESPACE, body)
    names, token = [], None
    while True:
        page = core.list_namespaced_secret(NAMESPACE, limit=3, _continue=token)
        names += [secret.metadata.name for secret in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == sorted(names) and len(names) == 7, names
    core.delete_collection_namespaced_secret(NAMESPACE, label_selector="page=yes")
    assert not core.list_namespaced_secret(NAMESPACE).items


def workloads_and_subresources(api):
    apps = client.AppsV1Api(api)
    utils.create_from_dict(api, deployment("web", 2), namespace=NAMESPACE)
    read = apps.read_namespaced_deployment("web", NAMESPACE)
    assert read.spec.strategy.rolling_update.max_surge == "25%"
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 5}})
    assert scale.spec.replicas == 5
    status = apps.patch_namespaced_deployment_status("web", NAMESPACE, {"status": {"replicas": 5}})
    assert status.status.replicas == 5 and status.spec.replicas == 5
    apps.delete_namespaced_deployment("web", NAMESPACE, body=client.V1DeleteOptions(propagation_policy="Foreground"))
    deadline = time.monotonic() + PATIENCE
    while apps.list_namespaced_deployment(NAMESPACE).items:
        assert time.monotonic() < deadline, "the deployment is not gone"
        time.sleep(0.05)


def dynamic_objects(api):
    resources = dynamic.DynamicClient(api).resources
    deployments = resources.get(api_version="apps/v1", kind="Deployment")
    applied = deployments.server_side_apply(body=deployment("dyn", 1), namespace=NAMESPACE, field_manager="alpha")
    assert applied.metadata.managedFields[0].manager == "alpha"
    try:
        deployments.server_side_apply(body=deployment("dyn", 3), namespace=NAMESPACE, field_manager="bravo")
        raise AssertionError("no conflict")
    except ConflictError as conflict:
        assert 'conflict with \\"alpha\\": .spec.replicas' in conflict.body, conflict.body
    forced = deployments.server_side_apply(
        body=deployment("dyn", 3), namespace=NAMESPACE, field_manager="bravo", force_conflicts=True
    )
    assert forced.spec.replicas == 3
    assert deployments.get(name="dyn", namespace=NAMESPACE).spec.replicas == 3
    deployments.delete(name="dyn", namespace=NAMESPACE)
    try:
        deployments.get(name="dyn", namespace=NAMESPACE)
        raise AssertionError("still there")
    except NotFoundError:
        pass


def dynamic_watches(api):
    maps = dynamic.DynamicClient(api).resources.get(api_version="v1", kind="ConfigMap")
    version = maps.get(namespace=NAMESPACE).metadata.resourceVersion
    maps.create(body={"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "dyn"}, "data": {"n": "0"}}, namespace=NAMESPACE)
    merge = "application/merge-patch+json"
    maps.patch(name="dyn", namespace=NAMESPACE, body={"data": {"n": "1"}}, content_type=merge)
    added = [{"op": "add", "path": "/data/m", "value": "2"}]
    patched = maps.patch(name="dyn", namespace=NAMESPACE, body=added, content_type="application/json-patch+json")
    assert patched.data.to_dict() == {"n": "1", "m": "2"}, patched
    maps.delete(name="dyn", namespace=NAMESPACE)
    watcher = watch.Watch()
    seen = []
    for event in maps.watch(namespace=NAMESPACE, resource_version=version, timeout=PATIENCE, watcher=watcher):
        seen.append((event["type"], event["object"].data.n))
        if event["type"] == "DELETED":
            watcher.stop()
    assert seen == [("ADDED", "0"), ("MODIFIED", "1"), ("MODIFIED", "1"), ("DELETED", "1")], seen
    deployments = dynamic.DynamicClient(api).resources.get(api_version="apps/v1", kind="Deployment")
    deployments.create(body=deployment("sub", 1), namespace=NAMESPACE)
    told = deployments.status.patch(name="sub", namespace=NAMESPACE, body={"status": {"replicas": 3}}, content_type=merge)
    assert told.status.replicas == 3 and told.spec.replicas == 1, told
    scale = deployments.scale.get(name="sub", namespace=NAMESPACE)
    assert scale.kind == "Scale" and scale.status.replicas == 3, scale
    deployments.delete(name="sub", namespace=NAMESPACE)


def watches(api):
    core = client.CoreV1Api(api)
    version = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def change():
        body = client.V1ConfigMap(metadata=client.V1ObjectMeta(name="seen", labels={"watched": "yes"}), data={"n": "0"})
        core.create_namespaced_config_map(NAMESPACE, body)
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"n": "1"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    writer = threading.Thread(target=change)
    writer.start()
    stream = watch.Watch()
    seen = []
    for event in stream.stream(
        core.list_namespaced_config_map,
        NAMESPACE,
        resource_version=version,
        label_selector="watched=yes",
        timeout_seconds=PATIENCE,
    ):
        seen.append((event["type"], event["object"].data["n"]))
        if event["type"] == "DELETED":
            stream.stop()
    writer.join()
    assert seen == [("ADDED", "0"), ("MODIFIED", "1"), ("DELETED", "1")], seen

    ended = list(watch.Watch().stream(core.list_namespaced_config_map, NAMESPACE, resource_version=version, timeout_seconds=5))
    assert len(ended) == 3, ended


def sensors():
    spec = {
        "type": "object",
        "required": ["place"],
        "properties": {
            "place": {"type": "string", "maxLength": 10},
            "interval": {"type": "integer", "default": 30, "minimum": 1},
            "replicas": {"type": "integer", "default": 1},
        },
    }
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}, "last": {"type": "string", "format": "date-time"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "sensors.python.example.com"},
        "spec": {
            "group": "python.example.com",
            "scope": "Namespaced",
            "names": {"plural": "sensors", "kind": "Sensor", "shortNames": ["sn"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
                    "subresources": {
                        "status": {},
                        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
                    },
                }
            ],
        },
    }


def sensor(name, place):
    return {
        "apiVersion": "python.example.com/v1",
        "kind": "Sensor",
        "metadata": {"name": name, "labels": {"suite": "python"}},
        "spec": {"place": place},
    }


def established(definition):
    conditions = (definition.status and definition.status.conditions) or []
    return any(condition.type == "Established" and condition.status == "True" for condition in conditions)


def custom_objects(api):
    definitions = client.ApiextensionsV1Api(api)
    name = definitions.create_custom_resource_definition(sensors()).metadata.name
    stream = watch.Watch()
    listed = definitions.list_custom_resource_definition
    for event in stream.stream(listed, field_selector=f"metadata.name={name}", timeout_seconds=PATIENCE):
        if established(event["object"]):
            stream.stop()
    assert established(definitions.read_custom_resource_definition(name))

    objects = client.CustomObjectsApi(api)
    place = ("python.example.com", "v1", NAMESPACE, "sensors")
    version = objects.list_namespaced_custom_object(*place)["metadata"]["resourceVersion"]
    made = objects.create_namespaced_custom_object(*place, sensor("roof", "roof"))
    assert made["spec"] == {"place": "roof", "interval": 30, "replicas": 1}, made
    refusal = refused(422, objects.create_namespaced_custom_object, *place, sensor("long", "a place far away"))
    assert "spec.place: Too long: may not be more than 10 bytes" in refusal.body, refusal.body
    patched = objects.patch_namespaced_custom_object(*place, "roof", {"spec": {"interval": 5}})
    assert patched["metadata"]["generation"] == 2, patched
    stale = dict(made, spec={"place": "cellar"})
    assert "the object has been modified" in refused(409, objects.replace_namespaced_custom_object, *place, "roof", stale).body
    told = {"spec": {"place": "cellar"}, "status": {"replicas": 1, "last": "2026-01-02T03:04:05Z"}}
    status = objects.patch_namespaced_custom_object_status(*place, "roof", told)
    assert status["spec"]["place"] == "roof" and status["status"]["replicas"] == 1, status
    assert objects.get_namespaced_custom_object_status(*place, "roof")["status"] == told["status"]
    scale = objects.patch_namespaced_custom_object_scale(*place, "roof", {"spec": {"replicas": 4}})
    assert scale["kind"] == "Scale" and scale["status"]["replicas"] == 1, scale
    assert objects.get_namespaced_custom_object_scale(*place, "roof")["spec"]["replicas"] == 4
    names = [item["metadata"]["name"] for item in objects.list_namespaced_custom_object(*place, label_selector="suite=python")["items"]]
    assert names == ["roof"], names
    objects.delete_namespaced_custom_object(*place, "roof")
    refused(404, objects.get_namespaced_custom_object, *place, "roof")

    seen = []
    stream = watch.Watch()
    for event in stream.stream(objects.list_namespaced_custom_object, *place, resource_version=version, timeout_seconds=PATIENCE):
        seen.append((event["type"], event["object"]["spec"]["interval"], event["object"]["spec"]["replicas"]))
        if event["type"] == "DELETED":
            stream.stop()
    changes = [("ADDED", 30, 1), ("MODIFIED", 5, 1), ("MODIFIED", 5, 1), ("MODIFIED", 5, 4), ("DELETED", 5, 4)]
    assert seen == changes, seen

    # Found by discovery, which was asked before there was such a kind.
    resource = dynamic.DynamicClient(api).resources.get(api_version="python.example.com/v1", kind="Sensor")
    applied = resource.server_side_apply(body=sensor("door", "door"), namespace=NAMESPACE, field_manager="alpha")
    assert applied.spec.interval == 30
    objects.delete_collection_namespaced_custom_object(*place)
    assert not objects.list_namespaced_custom_object(*place)["items"]
    definitions.delete_custom_resource_definition(name)
    deadline = time.monotonic() + PATIENCE
    while any(item.metadata.name == name for item in definitions.list_custom_resource_definition().items):
        assert time.monotonic() < deadline, "the definition is not gone"
        time.sleep(0.05)
    # The server follows the definition, maybe a moment behind.
    while not absent(objects.list_namespaced_custom_object, *place):
        assert time.monotonic() < deadline, "its objects are still served"
        time.sleep(0.05)


def server_facts(api):
    assert client.VersionApi(api).get_code().git_version.startswith("v1.36")
    groups = {group.name for group in client.ApisApi(api).get_api_versions().groups}
    assert {"apps", "batch", "rbac.authorization.k8s.io"} <= groups
    review = client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(
            resource_attributes=client.V1ResourceAttributes(namespace=NAMESPACE, verb="delete", resource="pods")
        )
    )
    assert client.AuthorizationV1Api(api).create_self_subject_access_review(review).status.allowed


def main():
    configuration = client.Configuration()
    config.load_kube_config(sys.argv[1], client_configuration=configuration)
    configuration.host = os.environ["HOLDFAST_SERVER"]
    with client.ApiClient(configuration) as api:
        checks = [typed_objects, paged_lists, workloads_and_subresources, dynamic_objects, dynamic_watches, watches, custom_objects, server_facts]
        for check in checks:
            check(api)
            print("ok", check.__name__, flush=True)
    print("all", len(checks), "held")


if __name__ == "__main__":
    main()
