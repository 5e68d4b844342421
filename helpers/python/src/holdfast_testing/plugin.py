"""Plugin of pytest.

`holdfast_server` is one server for all tests. Its objects and faults are reset after each test that uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from .controls import ApiError
from .server import Server

if TYPE_CHECKING:
    import kubernetes.client

_START = "pytest-start"
_SERVER = pytest.StashKey[Server]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("holdfast")
    group.addoption("--holdfast-binary", metavar="PATH", help="binary of Holdfast")
    parser.addini("holdfast_args", "further flags of the server of holdfast_server", type="args", default=[])
    parser.addini("holdfast_controllers", "controllers of the server of holdfast_server", type="args", default=["*"])


@pytest.fixture(scope="session")
def holdfast_session(pytestconfig: pytest.Config) -> Iterator[Server]:
    """Server of the session. Tests use `holdfast_server`, which resets it. Fixtures that prepare objects for all tests use this."""
    server = Server(
        binary=pytestconfig.getoption("--holdfast-binary"),
        controllers=pytestconfig.getini("holdfast_controllers"),
        args=pytestconfig.getini("holdfast_args"),
    )
    with server:
        yield server


@pytest.fixture
def holdfast_server(request: pytest.FixtureRequest, holdfast_session: Server) -> Iterator[Server]:
    """Server for one test. After the test, the objects are restored and all faults are deleted."""
    request.node.stash[_SERVER] = holdfast_session
    holdfast_session.keep(_START)
    try:
        yield holdfast_session
    finally:
        holdfast_session.clear_faults()
        holdfast_session.restore(_START)
        holdfast_session.forget(_START)


@pytest.fixture
def holdfast_client(holdfast_server: Server) -> Iterator[kubernetes.client.ApiClient]:
    """Official client of `holdfast_server`, with all rights."""
    with make_client(holdfast_server.kubeconfig) as client:
        yield client


@pytest.fixture
def holdfast_namespace(request: pytest.FixtureRequest, holdfast_client: kubernetes.client.ApiClient) -> str:
    """Name of a new namespace for the test. If the test fails, its report has the last lines of the timeline of it."""
    from kubernetes import client

    words = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:40].strip("-")
    metadata = client.V1ObjectMeta(generate_name=f"{words or 'test'}-")
    created = client.CoreV1Api(holdfast_client).create_namespace(client.V1Namespace(metadata=metadata))
    return created.metadata.name


def make_client(kubeconfig: str) -> kubernetes.client.ApiClient:
    """Returns an official client for a kubeconfig."""
    import yaml
    from kubernetes import config

    return config.new_client_from_config_dict(yaml.safe_load(kubeconfig))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    server = item.stash.get(_SERVER, None)
    if server is not None and call.when == "call" and report.failed:
        namespace = getattr(item, "funcargs", {}).get("holdfast_namespace", "")
        try:
            text = server.timeline(namespace)
        except (ApiError, OSError) as error:
            text = f"there is no timeline: {error}"
        about = f"namespace {namespace}" if namespace else "all namespaces"
        report.sections.append((f"Holdfast timeline of {about}", text))
    return report
