"""Client of the endpoints for tests: faults, checkpoints, forks, clock and timeline."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import tempfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

#: Time limit of a request in seconds.
TIMEOUT_SECONDS = 120

#: Number of lines of the timeline that a failed test prints.
TIMELINE_LINES = 50


class ApiError(Exception):
    """Answer with an error status."""

    def __init__(self, code: int, message: str):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Controls:
    """Controls of a server that has the endpoints for tests (--testing-endpoints)."""

    def __init__(self, kubeconfig: str):
        #: Kubeconfig of a user with all rights, as text. It contains the certificates.
        self.kubeconfig = kubeconfig
        document = yaml.safe_load(kubeconfig)
        cluster = document["clusters"][0]["cluster"]
        user = document["users"][0]["user"]
        #: URL of the server.
        self.url: str = cluster["server"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        _load_credentials(self._tls, user)

    def keep(self, name: str) -> dict[str, Any]:
        """Keeps the current state of all objects as a checkpoint."""
        return self._send("POST", "checkpoints", {"name": name})

    def checkpoints(self) -> list[dict[str, Any]]:
        """Returns all checkpoints."""
        return self._send("GET", "checkpoints")["checkpoints"]

    def forget(self, name: str) -> None:
        """Deletes a checkpoint."""
        self._send("DELETE", f"checkpoints/{_part(name)}")

    def restore(self, name: str, watchers: str = "differences") -> dict[str, Any]:
        """Restores the state of a checkpoint. Open watches get the changes, or 410 if `watchers` is `expire`."""
        return self._send("POST", f"checkpoints/{_part(name)}/restore", {"watchers": watchers})

    def fork(self, checkpoint: str) -> Fork:
        """Starts a server with the state of a checkpoint, in the process of this one."""
        answer = self._send("POST", f"checkpoints/{_part(checkpoint)}/fork")
        return Fork(answer["kubeconfig"], answer["id"], self)

    def add_fault(self, action: Mapping[str, Any], *, match: Mapping[str, Any] | None = None, **rule: Any) -> dict[str, Any]:
        """Adds a fault, and returns it with its ID. `rule` has `skip`, `count`, `probability` or `seed`."""
        return self._send("POST", "faults", {"match": dict(match or {}), "action": dict(action), **rule})

    def faults(self) -> list[dict[str, Any]]:
        """Returns all faults with their counters."""
        return self._send("GET", "faults")["faults"]

    def fault(self, id: int) -> dict[str, Any]:
        """Returns a fault with its counters."""
        return self._send("GET", f"faults/{id}")

    def remove_fault(self, id: int) -> dict[str, Any]:
        """Deletes a fault, and returns its last counters."""
        return self._send("DELETE", f"faults/{id}")

    def clear_faults(self) -> list[dict[str, Any]]:
        """Deletes all faults, and returns their last counters."""
        return self._send("DELETE", "faults")["faults"]

    def advance(self, by: str) -> dict[str, Any]:
        """Moves the clock forward by a duration such as `1h30m`."""
        return self._send("POST", "clock", {"advance": by})

    def clock(self) -> dict[str, Any]:
        """Returns the time of the server."""
        return self._send("GET", "clock")

    def timeline(self, namespace: str = "", limit: int = TIMELINE_LINES) -> str:
        """Returns the last lines of the timeline of a namespace. An empty namespace selects all requests."""
        query = {"limit": str(limit)}
        if namespace:
            query["namespace"] = namespace
        return self._exchange("GET", f"timeline?{urlencode(query)}").decode()

    def _send(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> Any:
        return json.loads(self._exchange(method, path, document))

    def _exchange(self, method: str, path: str, document: Mapping[str, Any] | None = None) -> bytes:
        address = urlsplit(self.url)
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, context=self._tls, timeout=TIMEOUT_SECONDS
        )
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, f"/testing/{path}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status >= 400:
            raise ApiError(response.status, _message(answer))
        return answer


class Fork(Controls):
    """Another server in the process of the first one. It began with the state of a checkpoint."""

    def __init__(self, kubeconfig: str, id: int, origin: Controls):
        super().__init__(kubeconfig)
        self._id = id
        self._origin = origin

    def stop(self) -> None:
        """Ends the fork. It ends with the first server at the latest."""
        self._origin._send("DELETE", f"forks/{self._id}")

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _part(name: str) -> str:
    return quote(name, safe="")


def _message(answer: bytes) -> str:
    try:
        return json.loads(answer)["message"]
    except (ValueError, KeyError, TypeError):
        return answer[:200].decode(errors="replace")


def _load_credentials(tls: ssl.SSLContext, user: Mapping[str, str]) -> None:
    # The module ssl reads certificates from files only.
    with tempfile.TemporaryDirectory(prefix="holdfast-") as folder:
        path = os.path.join(folder, "client.pem")
        with open(path, "wb") as file:
            for field in ("client-certificate-data", "client-key-data"):
                file.write(base64.b64decode(user[field]) + b"\n")
        tls.load_cert_chain(path)
