#!/usr/bin/env python3
"""Foreign SMB and NFS clients use a share: they write and read files with checksums, list, rename and delete them.

    run.py [--server trunkline|samba|ganesha] [--peer NAME ...]

Each peer is a program that runs as `PROGRAM PORT SHARE USER PASSWORD` and prints `PASS name` or `FAIL name: why` for
each case; smbclient_peer.py is the script for Samba's client. Those of NFS run as `PROGRAM PORT EXPORT VERSION WORD`,
once for each version. They are not run against Samba, nor the others against Ganesha. The peers come from the ordinary
registries: PyPI into `proving/.cache/venv`, Go modules, crates.io, Maven, npm, and Debian. A peer that is not available
counts as skipped.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import newer
from proving.harness import server as servers
from proving.harness.tally import Tally

# Prepares a peer and returns its command.
Prepare = Callable[[], list[str]]

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache"
RUN_LIMIT_S, BUILD_LIMIT_S = 240, 900
PYTHON_PACKAGES = ("smbprotocol==1.17.0", "impacket==0.13.1", "pysmb==1.2.15")


# Cases that Samba 4.17 itself fails.
SAMBA_LACKS = {
    "rust-smb2 on files: a large named stream": "Samba keeps a stream in one xattr, and ext4 holds under 4 KiB of them for a file",
    **{f"rust-smb on {share}: requests in pieces": "Samba's host acknowledges the first piece 40 ms later" for share in ("files", "sealed")},
    "rust-smb2 on sealed: connect": "Samba refuses an unsealed TREE_CONNECT to the share; the crate waits for the share's flag",
}


class Missing(Exception):
    """The peer is not available on this machine."""


def _build(command: list[str], what: str, **options: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, stdin=subprocess.DEVNULL, **options)
    if done.returncode != 0:
        raise Missing(f"{what} does not build: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")


def _need(program: str, package: str) -> None:
    if shutil.which(program) is None:
        raise Missing(f"{program} is missing: {package}")


def python_with_packages() -> list[str]:
    """Return the command of a Python that has the packages, which are installed at the first call."""
    venv = CACHE / "venv"
    python, wanted = venv / "bin" / "python", venv / "installed"
    if not wanted.exists() or wanted.read_text() != "\n".join(PYTHON_PACKAGES):
        _build([sys.executable, "-m", "venv", "--clear", str(venv)], "a Python environment")
        _build([str(python), "-m", "pip", "install", "-q", *PYTHON_PACKAGES], "the Python environment")
        wanted.write_text("\n".join(PYTHON_PACKAGES))
    return [str(python)]


def _python(script: str) -> Prepare:
    return lambda: [*python_with_packages(), str(HERE / script)]


def _smbclient() -> list[str]:
    _need("smbclient", "apt-get install smbclient")
    return [sys.executable, str(HERE / "smbclient_peer.py")]


def _go() -> list[str]:
    _need("go", "install Go 1.25 or later")
    program = CACHE / "go-smb2"
    CACHE.mkdir(exist_ok=True)
    _build(["go", "build", "-o", str(program), "."], "go-smb2", cwd=HERE / "go")
    return [str(program)]


def rust_peer(binary: str, package: str = "rust", profile: str = "dev") -> list[str]:
    """Return the command of a peer in Rust, which is built."""
    _need("cargo", "install Rust")
    target = CACHE / "peers-target"
    environment = dict(os.environ, CARGO_TARGET_DIR=str(target))
    _build(["cargo", "build", "-q", "--locked", "--profile", profile, "--bin", binary], "the Rust peers", cwd=HERE / package, env=environment)
    return [str(target / ("debug" if profile == "dev" else profile) / binary)]


def _rust(binary: str, package: str = "rust") -> Prepare:
    return lambda: rust_peer(binary, package)


def _java(which: str) -> Prepare:
    def prepare() -> list[str]:
        _need("mvn", "install Maven and a Java development kit")
        _need("javac", "install a Java development kit")
        target = CACHE / "java"
        libraries = target / "lib"
        if not libraries.exists():
            _build(["mvn", "-q", "-B", "-f", str(HERE / "java"), "dependency:copy-dependencies",
                    f"-DoutputDirectory={libraries}"], "what the Java peers use")
        path = f"{libraries}/*:{target}"
        _build(["javac", "-nowarn", "-cp", path, "-d", str(target), str(HERE / "java" / "Peer.java")], "the Java peers")
        return ["java", "-XX:TieredStopAtLevel=1", "-cp", path, "Peer", which]
    return prepare


def _node() -> list[str]:
    _need("npm", "install Node.js")
    target = CACHE / "node"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "peer.js"):
        shutil.copy(HERE / "node" / name, target / name)
    if not (target / "node_modules").exists():
        _build(["npm", "install", "--silent", "--no-audit", "--no-fund"], "the JavaScript peer", cwd=target)
    # The package signs with MD4, which OpenSSL has only in its legacy provider.
    return ["node", "--openssl-legacy-provider", str(target / "peer.js")]


def _libsmb2() -> list[str]:
    """Debian's library with the C library of its own release."""
    root = newer.root("libsmb2")
    folder = root / "usr/lib/x86_64-linux-gnu"
    if not (root / "usr/include/smb2/libsmb2.h").exists() or not folder.exists():
        raise Missing("libsmb2 is missing: scripts/foreign")
    _need("cc", "apt-get install gcc")
    program = CACHE / "libsmb2-peer"
    _build(["cc", "-O1", "-Wall", f"-I{root}/usr/include", "-o", str(program), str(HERE / "libsmb2" / "peer.c"), f"-L{folder}",
            "-lsmb2", "-Wl,--allow-shlib-undefined"], "libsmb2's peer")
    return [str(folder / "ld-linux-x86-64.so.2"), "--library-path", str(folder), str(program)]


def _libnfs() -> list[str]:
    _need("nfs-ls", "apt-get install libnfs-utils")
    return [sys.executable, str(HERE / "libnfs_peer.py")]


PEERS = {
    "smbclient": _smbclient,
    "smbprotocol": _python("smbprotocol_peer.py"),
    "links": _python("links_peer.py"),
    "impacket": _python("impacket_peer.py"),
    "go-smb2": _go,
    "rust-smb": _rust("peer-smb"),
    "rust-smb2": _rust("peer-smb2"),
    "pysmb": _python("pysmb_peer.py"),
    "smbj": _java("smbj"),
    "jcifs-ng": _java("jcifs"),
    "node-smb2": _node,
    "libsmb2": _libsmb2,
}
# Clients without encryption.
UNSEALED = ("pysmb", "jcifs-ng", "node-smb2")

# The NFS peers with their versions. The server must refuse 4.0, so only Trunkline is tested with it.
NFS_PEERS = {
    "nfs-rs": (_rust("peer-nfs-rs", "rust-nfs"), ("4.1", "4.2", "4.0")),
    "libnfs": (_libnfs, ("4.0",)),
}


def run_peer(tally: Tally, name: str, command: list[str], server: servers.Server, share: str, words: Sequence[str]) -> None:
    process = subprocess.Popen([*command, str(server.port), share, *words], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=RUN_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        tally.add("fail", f"{name} on {share}", f"it did not end within {RUN_LIMIT_S} s")
    verdicts = 0
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word in ("PASS", "FAIL", "SKIP"):
            label, _, detail = rest.partition(": ")
            label = f"{name} on {share}: {label}"
            if word == "FAIL" and server.kind == "samba" and label in SAMBA_LACKS:
                word, detail = "SKIP", SAMBA_LACKS[label]
            tally.add(word.lower(), label, detail)
            verdicts += 1
    if verdicts == 0 or process.returncode not in (0, 1):
        tally.add("fail", f"{name} on {share}", f"ended with {process.returncode}: {output.strip()[-400:]}")
    if not server.alive():
        tally.add("fail", f"{name} on {share}: server", f"it ended: {server.log()[-400:]}")
        server.start()


def run_all(tally: Tally, kind: str, profile: str, prepare: dict[str, Prepare], runs: Mapping[str, Sequence[tuple[str, str, Sequence[str]]]]) -> None:
    """Run each peer against one server, with the labels, shares and further words in `runs`."""
    if not runs:
        return
    try:
        with servers.Server(kind, profile) as server:
            for name, each in runs.items():
                try:
                    command = prepare[name]()
                except (Missing, subprocess.TimeoutExpired) as reason:
                    tally.add("skip", name, str(reason))
                    continue
                for label, share, words in each:
                    run_peer(tally, label, command, server, share, words)
        if server.complaint:
            tally.add("fail", "the server's end", server.complaint)
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=sorted({*servers.KINDS, *servers.NFS_KINDS}), default="trunkline")
    parser.add_argument("--peer", action="append", choices=[*PEERS, *NFS_PEERS])
    options = parser.parse_args()
    tally = Tally("peers")
    asked = options.peer or [*PEERS, *NFS_PEERS]
    account = servers.accounts()[0]
    if options.server in servers.KINDS:
        runs = {name: [(name, share, account) for share in ("files", "sealed")
                        if share == "files" or name not in UNSEALED] for name in PEERS if name in asked}
        run_all(tally, options.server, "default", {name: PEERS[name] for name in runs}, runs)
    if options.server in servers.NFS_KINDS:
        runs = {name: [(f"{name} {version}", "files", (version, version.replace(".", "-")))
                       for version in versions if version != "4.0" or options.server == "trunkline"]
                for name, (_, versions) in NFS_PEERS.items() if name in asked}
        run_all(tally, options.server, "nfs", {name: NFS_PEERS[name][0] for name in runs}, runs)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
