"""Tests of the fixtures, in sessions of their own."""

PREPARE = """
import pytest
from kubernetes import client

@pytest.fixture
def api(holdfast_client):
    return client.CoreV1Api(holdfast_client)

def names(api):
    return {item.metadata.name for item in api.list_namespaced_config_map("default").items} - {"kube-root-ca.crt"}

def create(api, name, namespace="default"):
    api.create_namespaced_config_map(namespace, client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name)))
"""


def test_each_test_begins_with_the_same_state(pytester):
    pytester.makepyfile(
        PREPARE
        + """
@pytest.mark.parametrize("turn", [1, 2])
def test_create(api, holdfast_server, turn):
    assert names(api) == set() and holdfast_server.faults() == []
    create(api, "settings")
    holdfast_server.add_fault({"error": {"code": 500}}, skip=1000)
"""
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_objects_of_the_session_stay(pytester):
    pytester.makepyfile(
        PREPARE
        + """
from holdfast_testing.plugin import make_client

@pytest.fixture(scope="session", autouse=True)
def prepared(holdfast_session):
    with make_client(holdfast_session.kubeconfig) as through:
        create(client.CoreV1Api(through), "shared")

@pytest.mark.parametrize("turn", [1, 2])
def test_delete(api, turn):
    assert names(api) == {"shared"}
    api.delete_namespaced_config_map("shared", "default")
"""
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=2)


def test_failed_test_prints_the_timeline_of_its_namespace(pytester):
    pytester.makepyfile(
        PREPARE
        + """
def test_fail(api, holdfast_namespace):
    create(api, "mine", holdfast_namespace)
    create(api, "other")
    assert False
"""
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Holdfast timeline of namespace test-fail-*", "*mine*"])
    result.stdout.no_fnmatch_line("*POST*other*")


def test_options_select_controllers_and_flags(pytester):
    pytester.makeini("[pytest]\nholdfast_controllers =\nholdfast_args = --feature-gates=AllAlpha=true\n")
    pytester.makepyfile(
        PREPARE
        + """
def test_namespace_stays(api, holdfast_namespace):
    api.delete_namespace(holdfast_namespace)
    assert api.read_namespace(holdfast_namespace).status.phase == "Terminating"
"""
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_missing_binary_is_an_error(pytester):
    pytester.makepyfile("def test_server(holdfast_server): pass")
    result = pytester.runpytest_subprocess("--holdfast-binary=/nonexistent/holdfast")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*/nonexistent/holdfast is not an executable file*"])
