#!/usr/bin/env python3
"""Run a command whose sockets wake it for every segment: SO_RCVLOWAT has no effect on them.

    every_segment.py COMMAND [ARGUMENT ...]

Our own client asks the kernel to wake it only for a whole part of a large reply
(crates/client/src/transport/socket.rs). Few other clients do. A filter of system calls (seccomp(2)) makes that one call
succeed without effect, so that the same program is measured both ways. Start reading at `filter_for`.
"""

import ctypes
import os
import platform
import socket
import sys

COMMAND = (sys.executable, os.path.abspath(__file__))
# The number of setsockopt(2), by machine.
_SETSOCKOPT = {"x86_64": 54, "aarch64": 208}
# linux/filter.h: load a word, jump if it is equal, return.
_LOAD, _IS, _RETURN = 0x20, 0x15, 0x06
# linux/seccomp.h: the offset of each word of the call, the errno 0 in place of the call, and the call itself.
_NUMBER, _LEVEL, _OPTION = 0, 24, 32
_SUCCEED, _ALLOW = 0x0005_0000, 0x7FFF_0000
# linux/prctl.h
_SET_SECCOMP, _SECCOMP_FILTER, _SET_NO_NEW_PRIVILEGES = 22, 2, 38


def filter_for(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the filter as (code, jump if true, jump if false, value). It allows everything except the one call."""
    return [
        (_LOAD, 0, 0, _NUMBER), (_IS, 0, 5, _SETSOCKOPT[machine]),
        (_LOAD, 0, 0, _LEVEL), (_IS, 0, 3, socket.SOL_SOCKET),
        (_LOAD, 0, 0, _OPTION), (_IS, 0, 1, socket.SO_RCVLOWAT),
        (_RETURN, 0, 0, _SUCCEED), (_RETURN, 0, 0, _ALLOW),
    ]


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_false", ctypes.c_ubyte), ("value", ctypes.c_uint)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(_Instruction))]


def _install(instructions: list[tuple[int, int, int, int]]) -> None:
    """Put the filter on this process and on the program that replaces it."""
    array = (_Instruction * len(instructions))(*(_Instruction(*it) for it in instructions))
    program = _Program(len(array), array)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.prctl(_SET_SECCOMP, _SECCOMP_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def _check() -> None:
    """Check that the filter works. A socket that still obeys the option would make two equal measurements look like
    different ones."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 4096)
        if probe.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) != 1:
            sys.exit("every_segment.py: SO_RCVLOWAT still has an effect")


def main() -> None:
    _install(filter_for(platform.machine()))
    _check()
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
