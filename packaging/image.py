"""An OCI image of the program, made with umoci and without a container engine.

It holds the program, the few libraries of the C library that it is linked with, and documents; there is no shell. The archive is both
an OCI layout and what `docker save` writes, so that `docker load`, `podman load` and `skopeo copy oci-archive:` all take it.
docs/containers.md is for those who run it.

The same commit and the same release of the C library give the same digest: the layer is written here, and umoci is told every time
that it would else take from the clock.
"""

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
# The user of the server, also in the images of others that have no user of the host.
USER = 65532
# Folders of the image, with their mode. The group is 0, so that OpenShift's users, who have any id and that group, may write too.
FOLDERS = {"var/lib/trunkline": 0o770, "data": 0o775}
STATE = "/var/lib/trunkline/state"
PORTS = (4450, 24490)


class Libraries(NamedTuple):
    """The C library of a processor on this machine, and its places in an image."""

    folder: str
    into: str
    loader: str
    loader_into: str
    packages: tuple[str, ...]


LIBRARIES = {
    "x86_64": Libraries("/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "ld-linux-x86-64.so.2", "lib64", ("libc6", "libgcc-s1")),
    "aarch64": Libraries("/usr/aarch64-linux-gnu/lib", "lib/aarch64-linux-gnu", "ld-linux-aarch64.so.1", "lib",
                         ("libc6-arm64-cross", "libgcc-s1-arm64-cross")),
}
NAMES = ("libc.so.6", "libm.so.6", "libgcc_s.so.1")


class Image(NamedTuple):
    """What is put into an image."""

    # The stripped program.
    program: Path
    # Other files, by their paths in the image.
    documents: dict[str, bytes]
    # The processor's name, and its name in images.
    processor: str
    architecture: str
    version: str
    commit: str
    epoch: int


def make(image: Image, path: Path) -> None:
    """Write the archive."""
    work = path.with_name(f"{path.name}.work")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        layer = work / "layer.tar"
        layer.write_bytes(layer_of(image))
        layout = work / "layout"
        _umoci("init", "--layout", layout)
        _umoci("new", "--image", f"{layout}:{image.version}")
        time = datetime.fromtimestamp(image.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        history = ["--history.created", time, "--history.author", "", "--history.created_by", "packaging/package.py"]
        _umoci("raw", "add-layer", *history, "--image", f"{layout}:{image.version}", layer)
        _umoci("config", *configuration(image), "--created", time, "--no-history", "--image", f"{layout}:{image.version}")
        _umoci("gc", "--layout", layout)
        path.write_bytes(archive_of(layout, image))
    finally:
        shutil.rmtree(work)


def configuration(image: Image) -> list[str]:
    """The words for `umoci config`. OCI images have no health check: compose files and Kubernetes name `trunkline health`."""
    labels = {
        "title": "trunkline", "description": "File server for SMB 2 and 3 and NFSv4.1/4.2", "version": image.version,
        "revision": image.commit, "licenses": "Apache-2.0 AND LGPL-2.1-or-later AND GPL-3.0-or-later WITH GCC-exception-3.1",
        "created": datetime.fromtimestamp(image.epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), "documentation": "/usr/share/doc/trunkline/containers.md.gz",
    }
    words = ["--config.user", f"{USER}:{USER}", "--config.workingdir", "/", "--config.stopsignal", "SIGTERM", "--config.volume", "/var/lib/trunkline",
             "--config.entrypoint", "/usr/bin/trunkline", "--config.cmd", "serve", "--os", "linux", "--architecture", image.architecture]
    for port in PORTS:
        words += ["--config.exposedports", f"{port}/tcp"]
    for variable in ("PATH=/usr/bin", "TRUNKLINE_CONFIG=/etc/trunkline/trunkline.toml", f"TRUNKLINE_STATE_DIR={STATE}"):
        words += ["--config.env", variable]
    for key, value in labels.items():
        words += ["--config.label", f"org.opencontainers.image.{key}={value}", "--manifest.annotation", f"org.opencontainers.image.{key}={value}"]
    return words


def layer_of(image: Image) -> bytes:
    """The only layer: every file of the image, as a tar."""
    needed = set(re.findall(r"NEEDED\s+(\S+)", _output("objdump", "-p", image.program)))
    libraries = LIBRARIES[image.processor]
    if unknown := needed - {*NAMES, libraries.loader}:
        sys.exit(f"image: the program needs {', '.join(sorted(unknown))}; packaging/image.py knows {', '.join(NAMES)}")
    files = {f"{libraries.into}/{name}": Path(libraries.folder, name).read_bytes() for name in NAMES}
    files[f"{libraries.loader_into}/{libraries.loader}"] = Path(libraries.folder, libraries.loader).read_bytes()
    for package in libraries.packages:
        files[f"usr/share/doc/{package}/copyright"] = Path(f"/usr/share/doc/{package}/copyright").read_bytes()
    files["usr/bin/trunkline"] = image.program.read_bytes()
    files["etc/trunkline/trunkline.toml"] = (ROOT / "packaging/image/trunkline.toml").read_bytes()
    files["etc/passwd"] = f"root:x:0:0:root:/:/sbin/nologin\ntrunkline:x:{USER}:{USER}::/var/lib/trunkline:/sbin/nologin\n".encode()
    files["etc/group"] = f"root:x:0:\ntrunkline:x:{USER}:\n".encode()
    files["etc/nsswitch.conf"] = b"hosts: files dns\n"
    files |= image.documents
    programs = {"usr/bin/trunkline", f"{libraries.loader_into}/{libraries.loader}"}
    return _tar(files, image.epoch, programs, FOLDERS)


def archive_of(layout: Path, image: Image) -> bytes:
    """The layout as one file, with the names and the description by which `docker load` knows an image."""
    files = {str(path.relative_to(layout)): path.read_bytes() for path in layout.rglob("*") if path.is_file()}
    index = json.loads(files["index.json"])
    (entry,) = index["manifests"]
    _pack_tighter(files, entry)
    entry["annotations"] |= {"io.containerd.image.name": f"docker.io/library/trunkline:{image.version}"}
    files["index.json"] = json.dumps(index, sort_keys=True).encode()
    manifest = json.loads(files[_blob(entry)])
    docker = {"Config": _blob(manifest["config"]), "RepoTags": [f"trunkline:{image.version}"], "Layers": [_blob(one) for one in manifest["layers"]]}
    files["manifest.json"] = json.dumps([docker], sort_keys=True).encode()
    return _tar(files, image.epoch, set(), {})


def _pack_tighter(files: dict[str, bytes], entry: dict[str, Any]) -> None:
    """Compress the layers again: umoci's fastest level leaves them a sixteenth larger. `entry` describes the manifest."""
    manifest = json.loads(files.pop(_blob(entry)))
    for layer in manifest["layers"]:
        _describe(files, layer, packed(gzip.decompress(files.pop(_blob(layer)))))
    _describe(files, entry, json.dumps(manifest, sort_keys=True).encode())


def _describe(files: dict[str, bytes], descriptor: dict[str, Any], content: bytes) -> None:
    """Put a blob into the layout, and its digest and size into its descriptor."""
    descriptor |= {"digest": f"sha256:{hashlib.sha256(content).hexdigest()}", "size": len(content)}
    files[_blob(descriptor)] = content


def components(processor: str) -> list[dict[str, str]]:
    """The packages of Debian that an image holds files of, for its SBOM."""
    found = []
    for package in LIBRARIES[processor].packages:
        version = _output("dpkg-query", "-W", "-f", "${Version}", package)
        found.append({"type": "library", "name": package, "version": version, "purl": f"pkg:deb/debian/{package}@{version}"})
    return found


def packed(content: bytes) -> bytes:
    """gzip without a name and a time."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def _blob(descriptor: dict[str, Any]) -> str:
    return "blobs/" + descriptor["digest"].replace(":", "/")


def _tar(files: dict[str, bytes], epoch: int, programs: set[str], folders: dict[str, int]) -> bytes:
    """A tar of files, with their folders before them. `folders` belong to the server's user."""
    above = {str(parent) for name in [*files, *folders] for parent in Path(name).parents if str(parent) != "."}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name in sorted(above | files.keys() | folders.keys()):
            entry = tarfile.TarInfo(name)
            entry.mtime = epoch
            if name in files:
                entry.size, entry.mode = len(files[name]), 0o755 if name in programs else 0o644
            else:
                entry.type, entry.mode, entry.uid = tarfile.DIRTYPE, folders.get(name, 0o755), USER if name in folders else 0
            tar.addfile(entry, io.BytesIO(files.get(name, b"")))
    return raw.getvalue()


def _umoci(*words: str | Path) -> None:
    _output("umoci", *words)


def _output(*words: str | Path) -> str:
    try:
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"), check=False)
    except FileNotFoundError:
        sys.exit(f"image: {words[0]} is missing: apt-get install umoci binutils")
    if done.returncode != 0:
        sys.exit(f"image: {words[0]} {words[1]}: {done.stderr.strip()}")
    return done.stdout
