"""Starts Holdfast, a Kubernetes-compatible API server, for tests."""

from .binary import find_binary
from .controls import ApiError, Controls, Fork
from .server import Server

__all__ = ["ApiError", "Controls", "Fork", "Server", "find_binary"]
