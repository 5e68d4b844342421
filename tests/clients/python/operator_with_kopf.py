"""An operator by kopf: what it does when lamps are made, changed and deleted, and by a timer. kopf runs it; operator_checks.py looks at it."""

import kopf

LAMPS = "lamps.kopf.example.com"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.persistence.finalizer = "kopf.example.com/finalizer"


@kopf.on.create(LAMPS)
def made(body, spec, patch, **_):
    kopf.info(body, reason="Lit", message="lit")
    patch.status["power"] = spec["watts"] * 2
    child = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "of-" + body["metadata"]["name"]}, "data": {}}
    kopf.adopt(child, owner=body)
    patch.status["owns"] = child["metadata"]["ownerReferences"][0]["name"]
    return {"by": "create"}


@kopf.on.update(LAMPS, field="spec.watts")
def changed(old, new, patch, **_):
    patch.status["power"] = new * 2
    patch.status["before"] = old


@kopf.on.delete(LAMPS)
def gone(body, **_):
    kopf.info(body, reason="Gone", message="gone")


@kopf.timer(LAMPS, interval=0.1)
def tick(status, patch, **_):
    ticks = status.get("ticks", 0)
    if ticks < 2:
        patch.status["ticks"] = ticks + 1
