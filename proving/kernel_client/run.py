#!/usr/bin/env python3
"""Mount a share with Linux's own SMB client, in every relevant way, and run the build-tree exercise on it.

    run.py [--server trunkline|samba|ksmbd] [--mount NAME ...]

Each mount is one boot of a guest (guest.py) that runs build_tree.py against its own server in the same network
namespace, or against Linux' own server in the same guest (qemu.py, ksmbd.py). `SAMBA_LACKS` lists the cases that Samba
4.17 itself fails, with the reasons.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels, qemu
from proving.kernel_client.counting import LIMIT_S, count, count_lines

HERE = Path(__file__).resolve().parent
COMMON = "noperm,file_mode=0644,dir_mode=0755"
MOUNTS = {
    "3.1.1-signed": ("files", f"vers=3.1.1,sec=ntlmsspi,{COMMON}"),
    "3.1.1-sealed": ("sealed", f"vers=3.1.1,seal,{COMMON}"),
    "3.1.1-plain": ("files", f"vers=3.1.1,sec=ntlmssp,{COMMON}"),
    "2.1-signed": ("files", f"vers=2.1,sec=ntlmsspi,{COMMON}"),
    "3.1.1-signed-posix": ("files", "vers=3.1.1,sec=ntlmsspi,posix,noperm"),
    "3.1.1-sealed-posix": ("sealed", "vers=3.1.1,seal,posix,noperm"),
    "3.1.1-modefromsid": ("files", "vers=3.1.1,sec=ntlmsspi,modefromsid,mfsymlinks,noperm"),
    "3.1.1-idsfromsid": ("files", "vers=3.1.1,sec=ntlmsspi,modefromsid,idsfromsid,mfsymlinks,noperm"),
}
# By mount, or by case in every mount.
SAMBA_LACKS = {
    "seek_hole_and_data": "Samba 4.17 answers FSCTL_QUERY_ALLOCATED_RANGES with BUFFER_TOO_SMALL if the client has no room for all "
    "ranges; MS-FSCC 2.3.52 requires the ranges that fit, and BUFFER_OVERFLOW",
    "3.1.1-signed-posix": "Samba 4.17 does not offer the SMB 3.1.1 POSIX extensions",
    "3.1.1-sealed-posix": "Samba 4.17 does not offer the SMB 3.1.1 POSIX extensions",
}


def keeps_modes(name: str) -> bool:
    """Return whether chmod on the mount reaches the server. Linux 6.1 does not send it over the POSIX extensions."""
    return "fromsid" in name or "posix" in name and kernels.GuestKernel.series != kernels.OWN


# Linux' own server serves this directory in its guest's memory. The guest is slow.
KSMBD_ROOT, KSMBD_PORT, KSMBD_MEMORY_MIB, KSMBD_LIMIT_S = "/run/served", 4450, 1400, 2400
# By kernel: the cases that its own server and client fail together.
KSMBD_LACKS = {"newest": {"fcntl_locks": "a lock that another client waits for is granted while its holder has it (7.3.4)"}}


def exercise_ksmbd(tally: Tally, name: str) -> None:
    """Run the exercise with the server and the client of one kernel, in one guest."""
    share, series = MOUNTS[name][0], kernels.GuestKernel.series
    with tempfile.TemporaryDirectory(prefix="proof-ksmbd-") as directory:
        os.chmod(directory, 0o755)
        ksmbd = console.lay([HERE / "ksmbd.py", HERE / "knfsd.py"], Path(directory))
        job = [sys.executable, ksmbd, qemu.root(series), KSMBD_ROOT, KSMBD_PORT, *servers.accounts()[0]]
        job += [sys.executable, console.lay([HERE / "build_tree.py"], Path(directory)), "--address", "127.0.0.1", "--port", KSMBD_PORT, *words(name)]
        job += ["--host-directory", f"{KSMBD_ROOT}/{share}"]
        count_lines(tally, name, qemu.run(series, job, KSMBD_LIMIT_S, KSMBD_MEMORY_MIB), KSMBD_LACKS.get(series, {}))


def words(name: str) -> list[str]:
    """Return the words of a mount for build_tree.py."""
    share, options = MOUNTS[name]
    user, password = servers.accounts()[0]
    return ["--share", share, "--user", user, "--password", password, "--options", options, *(["--posix"] if "posix" in name else []),
            *(["--modes"] if keeps_modes(name) else [])]


def exercise(tally: Tally, kind: str, name: str) -> None:
    share = MOUNTS[name][0]
    with guest.Network() as network, servers.Server(kind, "default", network) as server:
        # Beside the server's own files, since the guest does not see everything of this machine (guest.py).
        script = console.lay([HERE / "build_tree.py"], server.directory)
        job = [sys.executable, script, "--address", guest.SERVER_ADDRESS, "--port", server.port, *words(name),
               "--host-directory", server.share_directory(share)]
        ran = guest.run(network, job, LIMIT_S), server.alive(), server.log()
    count(tally, name, ran, server, SAMBA_LACKS if kind == "samba" else {})


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--server", choices=(*servers.KINDS, "ksmbd"), default="trunkline")
    parser.add_argument("--mount", action="append", choices=list(MOUNTS))
    options = parser.parse_args()
    if reason := qemu.missing(kernels.GuestKernel.series) if options.server == "ksmbd" else guest.missing() or guest.cannot_boot():
        skip_whole_suite(kernels.suite("kernel-client"), reason)
    tally = Tally(kernels.suite("kernel-client"))
    for name in options.mount or MOUNTS:
        if options.server == "samba" and name in SAMBA_LACKS:
            tally.add("skip", name, SAMBA_LACKS[name])
            continue
        try:
            if options.server == "ksmbd":
                exercise_ksmbd(tally, name)
            else:
                exercise(tally, options.server, name)
        except servers.CannotStart as refusal:
            tally.add(refusal.result, name, str(refusal))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
