"""Adds the binary to the wheel as the script `holdfast`, if the environment variable HOLDFAST_BINARY names it."""

import os
import sysconfig

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BinaryHook(BuildHookInterface):
    """Hook of hatchling."""

    def initialize(self, version, build_data):
        binary = os.environ.get("HOLDFAST_BINARY")
        if not binary:
            return
        if not os.access(binary, os.X_OK):
            raise ValueError(f"HOLDFAST_BINARY: {binary} is not executable")
        platform = os.environ.get("HOLDFAST_WHEEL_PLATFORM") or sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + platform.replace("-", "_").replace(".", "_")
        build_data["shared_scripts"][os.path.abspath(binary)] = "holdfast"
