"""Runs a command where no user namespace can be made, as under Docker's default rules; needs
root.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NEW_USER_NAMESPACE = 0x10000000
"""CLONE_NEWUSER of Linux, for unshare."""
_IDENTITIES = "0 0 70000"


def main() -> int:
    """Return the command's exit code."""
    if not namespaces_can_be_made():
        # Here it is so without our doing.
        os.execvp(sys.argv[1], sys.argv[1:])
    ready, go = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None).unshare(_NEW_USER_NAMESPACE):
            os._exit(99)
        os.write(ready[1], b".")
        os.read(go[0], 1)
        # The limit holds for this namespace and what is made inside it.
        Path("/proc/sys/user/max_user_namespaces").write_text("0")
        os.execvp(sys.argv[1], sys.argv[1:])
    os.read(ready[0], 1)
    for kind in ("uid", "gid"):
        Path(f"/proc/{child}/{kind}_map").write_text(_IDENTITIES)
    os.write(go[1], b".")
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def namespaces_can_be_made() -> bool:
    """Return whether this process may make a user namespace."""
    child = os.fork()
    if child == 0:
        os._exit(1 if ctypes.CDLL(None).unshare(_NEW_USER_NAMESPACE) else 0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    sys.exit(main())
