"""The store of a machine for listening sockets, with the protocol of systemd's (sd_notify(3), sd_listen_fds(3)).

A program that starts again in place gets what it has stored, as a unit with FileDescriptorStoreMax= does. Any other end of the
program drops the store, as the end of a unit does.
"""

import fcntl
import os
import socket
import threading
from pathlib import Path

# systemd's RestartSec=, as the units have it.
RESTART_S = 0.1
# Numbers that the descriptors have until the program gets them from 3 on.
_FIRST, _PASSED = 3, 200
_MESSAGE, _AT_ONCE = 4096, 16
# The program's ID is known only on the machine.
_PASS = f"""
number={_FIRST}
for passed in $PASSED_FDS; do eval "exec $number<&$passed $passed<&-"; number=$((number + 1)); done
unset PASSED_FDS
export LISTEN_PID=$$
exec "$@"
"""


class ListenerStore:
    """The sockets that the program of a machine has stored."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        self._stored: dict[str, int] = {}
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self) -> None:
        while True:
            message, descriptors, _, _ = socket.recv_fds(self._socket, _MESSAGE, _AT_ONCE)
            words = dict(line.partition("=")[::2] for line in message.decode().splitlines())
            name = words.get("FDNAME", "stored")
            with self._lock:
                if words.get("FDSTOREREMOVE") == "1" and name in self._stored:
                    os.close(self._stored.pop(name))
                for descriptor in descriptors:
                    if words.get("FDSTORE") == "1" and name not in self._stored:
                        self._stored[name] = descriptor
                    else:
                        os.close(descriptor)

    def clear(self) -> None:
        """Drop all sockets."""
        with self._lock:
            while self._stored:
                os.close(self._stored.popitem()[1])

    def environment(self) -> list[str]:
        """Return the variables of the environment of a program that stores its sockets here."""
        return [f"NOTIFY_SOCKET={self._path}"]

    def passing(self, command: list[str]) -> tuple[list[str], list[int]]:
        """Return the command line that passes the stored sockets to `command`, and the descriptors that it needs. The caller
        closes them."""
        with self._lock:
            names = list(self._stored)
            descriptors = [fcntl.fcntl(self._stored[name], fcntl.F_DUPFD_CLOEXEC, _PASSED) for name in names]
        if not names:
            return command, []
        variables = [f"LISTEN_FDS={len(names)}", f"LISTEN_FDNAMES={':'.join(names)}", f"PASSED_FDS={' '.join(map(str, descriptors))}"]
        return ["env", *variables, "bash", "-c", _PASS, "pass", *command], descriptors
