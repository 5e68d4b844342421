"""Tests of servers and controls."""

import os
import subprocess
import sys
import time
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest
from kubernetes import client

from holdfast_testing import ApiError, Server
from holdfast_testing.plugin import make_client


def config_map(name):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name))


def names(kubeconfig, namespace="default"):
    with make_client(kubeconfig) as through:
        found = client.CoreV1Api(through).list_namespaced_config_map(namespace).items
    return {item.metadata.name for item in found} - {"kube-root-ca.crt"}


def create(kubeconfig, name, namespace="default"):
    with make_client(kubeconfig) as through:
        client.CoreV1Api(through).create_namespaced_config_map(namespace, config_map(name))


def test_servers_have_objects_of_their_own():
    with Server() as first, Server() as second:
        create(first.kubeconfig, "settings")
        assert names(first.kubeconfig) == {"settings"}
        assert names(second.kubeconfig) == set()


def test_stopped_server_is_gone():
    server = Server()
    server.stop()
    server.stop()
    with pytest.raises(OSError):
        server.clock()


def test_invalid_flag_is_part_of_the_error():
    with pytest.raises(RuntimeError, match="--no-such-flag"):
        Server(args=["--no-such-flag"])


def test_server_ends_with_a_killed_process():
    script = (
        "from holdfast_testing import Server; import os, time\n"
        "print(Server().url, flush=True); time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    url = child.stdout.readline().strip()
    assert url
    child.kill()
    child.communicate()
    end = time.monotonic() + 30
    while True:
        try:
            urllib.request.urlopen(url, timeout=5)
        except OSError as error:
            if "refused" in str(error).lower():
                break
        assert time.monotonic() < end, "the server still listens"
        time.sleep(0.05)


def test_fault_fires_until_its_count(holdfast_server, holdfast_client):
    api = client.CoreV1Api(holdfast_client)
    fault = holdfast_server.add_fault(
        {"error": {"code": 503}}, match={"verbs": ["create"], "group": "", "resource": "configmaps"}, count=1
    )
    with pytest.raises(client.ApiException) as raised:
        api.create_namespaced_config_map("default", config_map("settings"))
    assert raised.value.status == 503
    api.create_namespaced_config_map("default", config_map("settings"))
    assert [entry["id"] for entry in holdfast_server.faults()] == [fault["id"]]
    assert holdfast_server.remove_fault(fault["id"])["status"] == {"matched": 2, "fired": 1}


def test_invalid_fault_is_an_error(holdfast_server):
    with pytest.raises(ApiError, match="code must be") as raised:
        holdfast_server.add_fault({"error": {"code": 200}})
    assert raised.value.code == 400


def test_restore_deletes_later_objects():
    with Server(controllers=[]) as server:
        server.keep("start")
        create(server.kubeconfig, "settings")
        # The server may have created objects of its own since the checkpoint.
        assert server.restore("start", watchers="expire")["deleted"] >= 1
        assert names(server.kubeconfig) == set()
        assert [entry["name"] for entry in server.checkpoints()] == ["start"]
        server.forget("start")
        assert server.checkpoints() == []


def test_fork_has_the_state_of_its_checkpoint():
    with Server(controllers=[]) as server:
        create(server.kubeconfig, "before")
        server.keep("start")
        create(server.kubeconfig, "after")
        with server.fork("start") as fork:
            assert names(fork.kubeconfig) == {"before"}
            create(fork.kubeconfig, "of-fork")
            assert names(server.kubeconfig) == {"before", "after"}
        with pytest.raises(OSError):
            fork.clock()


def test_advance_moves_the_clock():
    with Server() as server:
        assert server.advance("90m")["advanced"] == "1h30m0s"
        now = datetime.fromisoformat(server.clock()["now"].replace("Z", "+00:00"))
        assert now - datetime.now(timezone.utc) > timedelta(minutes=80)


def test_timeline_selects_a_namespace(holdfast_server, holdfast_client, holdfast_namespace):
    api = client.CoreV1Api(holdfast_client)
    api.create_namespaced_config_map(holdfast_namespace, config_map("settings"))
    api.create_namespaced_config_map("default", config_map("other"))
    text = holdfast_server.timeline(holdfast_namespace)
    assert "settings" in text and "other" not in text
    assert len(holdfast_server.timeline(limit=1).splitlines()) >= 1


def test_binary_is_found_in_order(tmp_path, monkeypatch):
    from holdfast_testing import find_binary

    def file(name):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(0o700)
        return str(path)

    explicit, variable, in_path, in_wheel = map(file, ["explicit", "variable", "path/holdfast", "scripts/holdfast"])
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / name))
    monkeypatch.setenv("PATH", os.path.dirname(in_path))
    monkeypatch.setenv("HOLDFAST", variable)
    assert find_binary(explicit) == explicit
    assert find_binary() == variable
    monkeypatch.delenv("HOLDFAST")
    assert find_binary() == in_path
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binary() == in_wheel
    os.remove(in_wheel)
    with pytest.raises(FileNotFoundError, match="HOLDFAST"):
        find_binary()
