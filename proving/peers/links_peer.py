#!/usr/bin/env python3
"""Programs without knowledge of links, on a tree with links: PORT SHARE USER PASSWORD.

smbprotocol creates a tree with links to targets outside it. Then smbclient, rclone and GVfs list the tree and remove it
recursively. The targets must stay intact. A missing program is skipped.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import smbclient

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import Report, same

PORT, SHARE, USER, PASSWORD = sys.argv[1:5]
BASE = "links-peer"
HOST = "127.0.0.1"
FILES = {"real/f": b"a file", "real/full/g": b"in a directory", "real/full/deep/h": b"deeper"}
LINKS = {"filelink": "..\\real\\f", "dirlink": "..\\real\\full", "emptylink": "..\\real\\empty",
         "round": "..\\tree", "up": "..", "nowhere": "..\\real\\missing"}
LIMIT_S = 60


def at(path: str = "") -> str:
    return "\\".join([f"\\\\{HOST}\\{SHARE}", BASE, *path.split("/")]).rstrip("\\")


def remove(path: str) -> None:
    """Remove a tree as it is, with links treated as links."""
    for entry in smbclient.scandir(path, port=int(PORT)):
        if entry.is_symlink() or not entry.is_dir():
            smbclient.remove(entry.path, port=int(PORT))
        else:
            remove(entry.path)
    smbclient.rmdir(path, port=int(PORT))


def make() -> None:
    for directory in ("", "real", "real/full", "real/full/deep", "real/empty", "tree", "tree/sub"):
        smbclient.makedirs(at(directory), exist_ok=True, port=int(PORT))
    for name, content in {**FILES, "tree/plain": b"plain", "tree/sub/plain": b"plain"}.items():
        with smbclient.open_file(at(name), mode="wb", port=int(PORT)) as file:
            file.write(content)
    for name, target in LINKS.items():
        if not smbclient.path.lexists(at(f"tree/{name}"), port=int(PORT)):
            smbclient.symlink(target, at(f"tree/{name}"), target_is_directory=name not in ("filelink", "nowhere"),
                              port=int(PORT))


def whole(after: str) -> None:
    for name, content in FILES.items():
        with smbclient.open_file(at(name), mode="rb", port=int(PORT)) as file:
            same(file.read(), content, f"{name} after {after}")
    same(smbclient.path.isdir(at("real/empty"), port=int(PORT)), True, f"real/empty after {after}")


class Tool(Protocol):
    """A program with which users remove trees, and its requirements."""

    program: str
    needs: list[str]

    def directories(self) -> set[str]:
        """Return the names below the tree that it considers directories."""

    def remove_tree(self) -> None:
        """Remove the tree with its content."""

    def remove_links(self) -> None:
        """Remove each link separately."""


class Samba:
    """smbclient."""

    program = "smbclient"
    needs: list[str] = []

    def run(self, *commands: str) -> str:
        done = subprocess.run(["smbclient", f"//{HOST}/{SHARE}", "-p", PORT, "-U", f"{USER}%{PASSWORD}", "-c", "; ".join(commands)],
                              capture_output=True, text=True, timeout=LIMIT_S)
        return done.stdout + done.stderr

    def directories(self) -> set[str]:
        lines = [line.split() for line in self.run(f"ls {BASE}\\tree\\*").splitlines() if line.startswith("  ")]
        return {words[0] for words in lines if len(words) > 2 and "D" in words[1]} - {".", ".."}

    def remove_tree(self) -> None:
        self.run(f"deltree {BASE}\\tree")

    def remove_links(self) -> None:
        self.run(f"cd {BASE}\\tree", "del filelink", "del nowhere", "del round", "del up", "rmdir dirlink", "rmdir emptylink")


class Rclone:
    """rclone."""

    program = "rclone"
    needs: list[str] = []

    def __init__(self) -> None:
        obscured = subprocess.run(["rclone", "obscure", PASSWORD], capture_output=True, text=True, check=True).stdout.strip()
        self.remote = f":smb,host={HOST},port={PORT},user={USER},pass='{obscured}':{SHARE}/{BASE}"

    def run(self, *words: str) -> str:
        environment = dict(os.environ, RCLONE_CONFIG="/dev/null")
        done = subprocess.run(["rclone", "--retries", "1", "--low-level-retries", "1", *words], capture_output=True, text=True,
                              timeout=LIMIT_S, env=environment)
        return done.stdout

    def directories(self) -> set[str]:
        return {line.strip("/") for line in self.run("lsf", "--dirs-only", f"{self.remote}/tree").splitlines()}

    def remove_tree(self) -> None:
        self.run("purge", f"{self.remote}/tree")

    def remove_links(self) -> None:
        for name in ("filelink", "nowhere", "round", "up"):
            self.run("deletefile", f"{self.remote}/tree/{name}")
        for name in ("dirlink", "emptylink"):
            self.run("rmdir", f"{self.remote}/tree/{name}")


class Gio:
    """GVfs through gio; must run in a D-Bus session."""

    # gio is part of GLib; the SMB part of GVfs is a package of its own.
    program, needs = "gio", ["/usr/share/gvfs/mounts/smb.mount"]

    def __init__(self) -> None:
        self.root = f"smb://{USER}@{HOST}:{PORT}/{SHARE}"
        done = subprocess.run(["gio", "mount", self.root], input=f"WORKGROUP\n{PASSWORD}\n", capture_output=True, text=True,
                              timeout=LIMIT_S)
        if done.returncode != 0:
            done = subprocess.run(["gio", "mount", self.root], input=f"{PASSWORD}\n", capture_output=True, text=True,
                                  timeout=LIMIT_S)
        same(done.returncode, 0, f"gio mount: {done.stderr.strip() or done.stdout.strip()}")

    def run(self, *words: str) -> str:
        return subprocess.run(["gio", *words], capture_output=True, text=True, timeout=LIMIT_S).stdout

    def entries(self, path: str) -> Iterator[tuple[str, bool]]:
        for line in self.run("list", "-l", f"{self.root}/{BASE}/{path}").splitlines():
            name, _, rest = line.partition("\t")
            yield name, "(directory)" in rest

    def directories(self) -> set[str]:
        return {name for name, is_directory in self.entries("tree") if is_directory}

    def remove(self, path: str) -> None:
        for name, is_directory in self.entries(path):
            if is_directory:
                self.remove(f"{path}/{name}")
            else:
                self.run("remove", f"{self.root}/{BASE}/{path}/{name}")
        self.run("remove", f"{self.root}/{BASE}/{path}")

    def remove_tree(self) -> None:
        self.remove("tree")

    def remove_links(self) -> None:
        for name in LINKS:
            self.run("remove", f"{self.root}/{BASE}/tree/{name}")


def links_left() -> list[str]:
    return sorted(entry.name for entry in smbclient.scandir(at("tree"), port=int(PORT)) if entry.name in LINKS)


def lists(tool: Tool) -> None:
    make()
    same(tool.directories(), {"sub", "dirlink", "emptylink"}, "what is entered")


def removes_links(tool: Tool) -> None:
    make()
    tool.remove_links()
    whole("each link was removed")
    same(links_left(), [], "links that are left")


def removes_tree(tool: Tool) -> None:
    make()
    began = time.monotonic()
    tool.remove_tree()
    same(time.monotonic() - began < LIMIT_S, True, "it ends")
    whole("the tree was removed")


def main() -> None:
    report = Report()
    smbclient.ClientConfig(username=USER, password=PASSWORD)
    for kind in (Samba, Rclone, Gio):
        if shutil.which(kind.program) is None or not all(map(os.path.exists, kind.needs)):
            print(f"SKIP {kind.program}: it is not installed", flush=True)
            continue
        try:
            tool = kind()
        except Exception as why:  # a program that cannot connect fails its cases
            report.case(f"{kind.program} connects", same, str(why), "", "connecting")
            continue
        report.case(f"{kind.program} enters directories behind links, and walks in no circle", lists, tool)
        report.case(f"{kind.program} removes links and no targets", removes_links, tool)
        report.case(f"{kind.program} removes a tree and no targets", removes_tree, tool)
    make()
    remove(at())
    report.close()


if __name__ == "__main__":
    if os.environ.get("DBUS_SESSION_BUS_ADDRESS") is None and shutil.which("dbus-run-session") is not None:
        with tempfile.TemporaryDirectory(prefix="links-peer-") as runtime:
            done = subprocess.run(["dbus-run-session", "--", sys.executable, *sys.argv],
                                  env=dict(os.environ, XDG_RUNTIME_DIR=runtime, HOME=runtime))
            sys.exit(done.returncode)
    main()
