"""Finds the binary."""

from __future__ import annotations

import os
import shutil
import sysconfig

VARIABLE = "HOLDFAST"


def find_binary(explicit: str | os.PathLike[str] | None = None) -> str:
    """Returns the path of the binary: `explicit`, the value of HOLDFAST, the first one in PATH, or that of the wheel."""
    for path in (explicit, os.environ.get(VARIABLE)):
        if path:
            found = shutil.which(path)
            if not found:
                raise FileNotFoundError(f"{os.fspath(path)} is not an executable file")
            return found
    found = shutil.which("holdfast") or shutil.which("holdfast", path=sysconfig.get_path("scripts"))
    if not found:
        raise FileNotFoundError(
            f"there is no holdfast: set {VARIABLE} to its path, add its directory to PATH, or install a wheel with the binary"
        )
    return found
