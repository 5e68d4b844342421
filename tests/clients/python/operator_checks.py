"""An operator by kopf against a server. The one argument is a kubeconfig, which KUBECONFIG names too. It prints the name of each check that held and ends with an
error at the first that did not."""

import pathlib
import sys
import time

from kopf.testing import KopfRunner
from kubernetes import client, config

NAMESPACE = "default"
PATIENCE = 60
PLACE = ("kopf.example.com", "v1", NAMESPACE, "lamps")

LAMPS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "lamps.kopf.example.com"},
    "spec": {
        "group": "kopf.example.com",
        "scope": "Namespaced",
        "names": {"plural": "lamps", "kind": "Lamp"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"watts": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def until(what, ask):
    deadline = time.monotonic() + PATIENCE
    while not ask():
        assert time.monotonic() < deadline, f"not in time: {what}"
        time.sleep(0.05)


def status():
    return client.CustomObjectsApi().get_namespaced_custom_object(*PLACE, "desk").get("status", {})


def reasons():
    events = client.CoreV1Api().list_namespaced_event(NAMESPACE, field_selector="involvedObject.kind=Lamp")
    return {event.reason for event in events.items}


def creation(lamps):
    lamp = {"apiVersion": "kopf.example.com/v1", "kind": "Lamp", "metadata": {"name": "desk"}, "spec": {"watts": 20}}
    lamps.create_namespaced_custom_object(*PLACE, lamp)
    until("the creation is handled", lambda: status().get("made") == {"by": "create"})
    assert status()["power"] == 40 and status()["owns"] == "desk", status()
    made = lamps.get_namespaced_custom_object(*PLACE, "desk")
    assert made["metadata"]["finalizers"] == ["kopf.example.com/finalizer"], made
    until("an event tells of it", lambda: "Lit" in reasons())


def timer(_lamps):
    until("the timer has run twice", lambda: status().get("ticks") == 2)


def update(lamps):
    lamps.patch_namespaced_custom_object(*PLACE, "desk", {"spec": {"watts": 5}})
    until("the change is handled", lambda: status().get("before") == 20)
    assert status()["power"] == 10, status()


def deletion(lamps):
    lamps.delete_namespaced_custom_object(*PLACE, "desk")
    until("the lamp is gone", lambda: not lamps.list_namespaced_custom_object(*PLACE)["items"])
    until("an event tells of it", lambda: "Gone" in reasons())


def main():
    config.load_kube_config(sys.argv[1])
    definitions = client.ApiextensionsV1Api()
    definitions.create_custom_resource_definition(LAMPS)
    until(
        "the definition is established",
        lambda: any(
            condition.type == "Established" and condition.status == "True"
            for condition in (definitions.read_custom_resource_definition("lamps.kopf.example.com").status.conditions or [])
        ),
    )
    operator = pathlib.Path(__file__).with_name("operator_with_kopf.py")
    checks = [creation, timer, update, deletion]
    with KopfRunner(["run", "--standalone", f"--namespace={NAMESPACE}", str(operator)]) as runner:
        for check in checks:
            check(client.CustomObjectsApi())
            print("ok", check.__name__, flush=True)
    assert runner.exit_code == 0 and runner.exception is None, runner.output
    print("all", len(checks), "held")


if __name__ == "__main__":
    main()
