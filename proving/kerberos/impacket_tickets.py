#!/usr/bin/env python3
"""The PyPI package impacket as a client with the tickets of KRB5CCNAME.

    impacket_tickets.py HOST PORT round            list shares, write a file and read it back
    impacket_tickets.py HOST PORT hold NAME        open NAME with a persistent handle, print its id, and end without CLOSE
    impacket_tickets.py HOST PORT reclaim NAME ID  reconnect to that handle, write through it, and print the status

All clients of a NAME have the same ClientGuid and CreateGuid, as one client that comes back has.
"""

import io
import os
import random
import struct
import sys
from typing import Any

from impacket import smb3
from impacket.smb3structs import FILE_CREATE, FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_SHARE_READ, SMB2CreateContext
from impacket.smbconnection import SessionError, SMBConnection

HOST, PORT, ACTION = sys.argv[1], int(sys.argv[2]), sys.argv[3]
SHARE = "docs"
CREATE_GUID = b"the create guid!"
PERSISTENT, PERSISTENT_HANDLES, TIMEOUT_MS = 2, 0x10, 60_000
READ_WRITE = 0x0012_019F


def connect() -> Any:
    """Log on with the tickets of the cache."""
    # impacket opens the cache as a file.
    os.environ["KRB5CCNAME"] = os.environ["KRB5CCNAME"].removeprefix("FILE:")
    # impacket draws the ClientGuid, and says of itself that it can encrypt.
    random.seed(1)
    smb3.SMB2_GLOBAL_CAP_ENCRYPTION |= PERSISTENT_HANDLES
    connection = SMBConnection(HOST, HOST, sess_port=PORT)
    connection.kerberosLogin("", "", useCache=True)
    return connection


def context(name: bytes, data: bytes) -> SMB2CreateContext:
    """A create context (MS-SMB2 2.2.13.2)."""
    made = SMB2CreateContext()
    made["NameOffset"], made["NameLength"], made["DataOffset"], made["DataLength"] = 16, len(name), 24, len(data)
    made["Buffer"] = name + bytes(4) + data
    return made


def create(connection: Any, name: str, disposition: int, wanted: SMB2CreateContext) -> tuple[int, bytes]:
    """Open a file with a context; returns the tree and the FileId."""
    server = connection.getSMBServer()
    tree = server.connectTree(SHARE)
    return tree, server.create(tree, name, READ_WRITE, FILE_SHARE_READ, FILE_NON_DIRECTORY_FILE, disposition, 0x80, createContexts=[wanted])


def main() -> None:
    connection = connect()
    if ACTION == "round":
        names = {entry["shi1_netname"][:-1] for entry in connection.listShares()}
        assert SHARE in names, names
        data, back = bytes(range(256)) * 1000, io.BytesIO()
        connection.putFile(SHARE, "by-impacket", io.BytesIO(data).read)
        connection.getFile(SHARE, "by-impacket", back.write)
        assert back.getvalue() == data, "another content came back"
        print("fine")
    elif ACTION == "hold":
        asked = context(b"DH2Q", struct.pack("<II8x", TIMEOUT_MS, PERSISTENT) + CREATE_GUID)
        tree, handle = create(connection, sys.argv[4], FILE_CREATE, asked)
        connection.getSMBServer().write(tree, handle, b"before", 0, 6)
        print(handle.hex(), flush=True)
        sys.stdin.read()
    else:
        handle = bytes.fromhex(sys.argv[5])
        try:
            tree, handle = create(connection, sys.argv[4], FILE_OPEN, context(b"DH2C", handle + CREATE_GUID + struct.pack("<I", PERSISTENT)))
            connection.getSMBServer().write(tree, handle, b"after!", 6, 6)
        except (SessionError, smb3.SessionError) as why:
            print(f"{why.get_error_code() if hasattr(why, 'get_error_code') else why.getErrorCode():#x}")
            return
        print("reclaimed")


if __name__ == "__main__":
    main()
