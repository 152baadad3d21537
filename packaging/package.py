#!/usr/bin/env python3
"""Make packages of Trunkline: a .deb, an .rpm, a tar.xz and an OCI image (image.py), each with what it holds listed beside it (SBOM), their checksums and,
with a key, a signature. Without words it builds the program (packaging/build) and makes all of them in `packages` of the target
directory.

    packaging/package.py                                            all, for this machine's processor
    packaging/package.py --target aarch64-unknown-linux-gnu         all, for another one
    packaging/package.py --only deb --program target/release/trunkline      one, of a program that is built already

`LAYOUT` says which file lies where. The crate's manifest (crates/trunkline/Cargo.toml) has what a .deb and an .rpm say of
themselves. Every time in a package is that of the commit, or SOURCE_DATE_EPOCH.
"""

import argparse
import gzip
import hashlib
import io
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from email.utils import formatdate
from pathlib import Path
from typing import NamedTuple

import image
import notices

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("deb", "rpm", "tar", "image")
# The name of a processor: for Rust, for Debian, for everyone else.
PROCESSORS = {"x86_64-unknown-linux-gnu": ("amd64", "x86_64"), "aarch64-unknown-linux-gnu": ("arm64", "aarch64")}
# A folder of the tree below: what is copied there. {manual} is what the example `manual` has written.
LAYOUT = {
    "usr/lib/firewalld/services": ["packaging/firewalld/trunkline.xml"],
    "usr/share/bash-completion/completions": ["{manual}/bash/trunkline.bash"],
    "usr/share/fish/vendor_completions.d": ["{manual}/fish/trunkline.fish"],
    "usr/lib/systemd/system": ["packaging/systemd/trunkline-domain-renew.*", "packaging/systemd/trunkline-node.service"],
    "usr/share/trunkline": ["packaging/systemd/home-shares.conf"],
    "usr/share/trunkline/dashboards": ["dashboards/trunkline.json"],
    "usr/share/doc/trunkline": ["README.md", "SEMANTICS.md", "SECURITY.md"],
    "usr/share/doc/trunkline/docs": ["docs/*.md"],
}
# Where Pacemaker looks for agents, below the root of each package. A tar has it below `share`, since nobody looks in /usr/local.
AGENT = "usr/lib/ocf/resource.d/trunkline/trunkline"
MANUAL = ("man1", "man5")
# What lies in another place in each kind of package.
SINGLE = ("LICENSE", "packaging/trunkline.toml", "packaging/systemd/trunkline.service", "packaging/systemd/trunkline.sysusers")


class Job(NamedTuple):
    """What a run makes, and of what."""

    triple: str
    # The target directory of cargo, and the folder of it in which the files of the packages are laid out.
    target: Path
    stage: Path
    out: Path
    program: Path
    version: str
    revision: str
    epoch: int
    maintainer: str

    @property
    def architecture(self) -> tuple[str, str]:
        """The processor's name in Debian, and everywhere else."""
        return PROCESSORS[self.triple]


def run(*words: str | Path, **changes: str) -> str:
    """Run a command that must succeed; gives its output."""
    done = subprocess.run([str(word) for word in words], cwd=ROOT, env=dict(os.environ, **changes), stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"package: {words[0]} failed with exit status {done.returncode}")
    return done.stdout.strip()


def write(path: Path, content: bytes) -> None:
    """Write a file of the tree, with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def packed(content: bytes) -> bytes:
    """gzip without a name and a time, as small as it gets: the form of documents in Debian."""
    return gzip.compress(content, compresslevel=9, mtime=0)


def lay_out(job: Job) -> None:
    """The files of all packages, as they lie on a machine, below `root` of the stage; and what differs by kind beside it."""
    shutil.rmtree(job.stage, ignore_errors=True)
    root, manual = job.stage / "root", job.stage / "manual"
    job.stage.mkdir(parents=True)
    # The manual is made by this machine, whatever processor the packages are for. These words make all crates such as
    # `cargo test --workspace` does, so `make test` has them already: without xtask, which macros use too, they would differ.
    run("cargo", "build", "-q", "--locked", "--workspace", "--example", "manual", "--bin", "xtask")
    run(job.target / "debug/examples/manual", manual)
    for folder, patterns in LAYOUT.items():
        for pattern in patterns:
            for source in sorted(Path("/").glob(str(ROOT / pattern.format(manual=manual)).lstrip("/"))):
                write(root / folder / source.name, source.read_bytes())
    (root / "usr/share/bash-completion/completions/trunkline.bash").rename(root / "usr/share/bash-completion/completions/trunkline")
    for section in MANUAL:
        for page in sorted((manual / section).iterdir()):
            write(root / "usr/share/man" / section / f"{page.name}.gz", packed(page.read_bytes()))
    documents = root / "usr/share/doc/trunkline"
    write(documents / "changelog.gz", packed((ROOT / "CHANGELOG.md").read_bytes()))
    write(documents / "NOTICES.gz", packed(notices.text(job.triple).encode()))
    write(job.stage / "changelog.Debian.gz", packed(debian_changelog(job).encode()))
    for single in SINGLE:
        write(job.stage / "single" / Path(single).name, (ROOT / single).read_bytes())
    write(job.stage / "agent" / AGENT, (ROOT / "packaging/ocf/trunkline").read_bytes())
    strip(job)
    for path in [job.stage, *job.stage.rglob("*")]:
        path.chmod(0o755 if path.is_dir() or path in (job.stage / "trunkline", job.stage / "agent" / AGENT) else 0o644)
        os.utime(path, (job.epoch, job.epoch))


def strip(job: Job) -> None:
    """The program in the stage, without its symbols."""
    job.stage.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(job.program, job.stage / "trunkline")
    run("strip" if job.architecture[0] == "amd64" else f"{job.architecture[1]}-linux-gnu-strip", job.stage / "trunkline")


def debian_changelog(job: Job) -> str:
    """Debian's changelog is one of the package. That of the program lies beside it."""
    return (f"trunkline ({job.version}-{job.revision}) unstable; urgency=medium\n\n"
            "  * The changes are in /usr/share/doc/trunkline/changelog.gz.\n\n"
            f" -- {job.maintainer}  {formatdate(job.epoch)}\n")


def make_deb(job: Job, tools: Path) -> Path:
    """The .deb, by cargo-deb."""
    path = job.out / f"trunkline_{job.version}-{job.revision}_{job.architecture[0]}.deb"
    run(tools / "cargo-deb", "--no-build", "--no-strip", "--locked", "-q", "-p", "trunkline", *target_words(job), "--deb-revision", job.revision,
        "--maintainer", job.maintainer, "--output", path, CARGO_TARGET_DIR=str(job.target), SOURCE_DATE_EPOCH=str(job.epoch))
    return path


def make_rpm(job: Job, tools: Path) -> Path:
    """The .rpm, by cargo-generate-rpm."""
    path = job.out / f"trunkline-{job.version}-{job.revision}.{job.architecture[1]}.rpm"
    run(tools / "cargo-generate-rpm", "-p", "crates/trunkline", *target_words(job), "--target-dir", job.target, "--set-metadata",
        f'release = "{job.revision}"', "--payload-compress", "zstd", "-o", path, SOURCE_DATE_EPOCH=str(job.epoch))
    return path


def target_words(job: Job) -> list[str]:
    """The words by which both find the stage."""
    return ["--target", job.triple] if job.stage.parent.parent.name == job.triple else []


def make_tar(job: Job) -> Path:
    """The tar: the tree as below /usr/local, and what the packages keep in /etc, as examples."""
    name = f"trunkline-{job.version}-{job.architecture[1]}"
    root = job.stage / "root/usr"
    files = {f"{name}/{path.relative_to(root)}": path for path in root.rglob("*") if path.is_file()}
    files[f"{name}/bin/trunkline"] = job.stage / "trunkline"
    files[f"{name}/share/trunkline/ocf/trunkline"] = job.stage / "agent" / AGENT
    files[f"{name}/share/zsh/site-functions/_trunkline"] = job.stage / "manual/zsh/_trunkline"
    files |= {f"{name}/{path.name}": path for path in (job.stage / "single").iterdir()}
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for inner in sorted(files):
            entry = tarfile.TarInfo(inner)
            entry.size, entry.mtime, entry.mode = files[inner].stat().st_size, job.epoch, 0o755 if inner.endswith(("bin/trunkline", "ocf/trunkline")) else 0o644
            entry.uname = entry.gname = "root"
            tar.addfile(entry, io.BytesIO(files[inner].read_bytes()))
    path = job.out / f"{name}.tar.xz"
    path.write_bytes(lzma.compress(raw.getvalue(), preset=9))
    return path


def make_image(job: Job) -> Path:
    """The OCI image, as an archive that engines load."""
    texts = {"NOTICES": notices.text(job.triple).encode(), "changelog": (ROOT / "CHANGELOG.md").read_bytes(),
             "containers.md": (ROOT / "docs/containers.md").read_bytes(), "LICENSE": (ROOT / "LICENSE").read_bytes()}
    inner = {f"usr/share/doc/trunkline/{name}.gz": packed(text) for name, text in texts.items()}
    path = job.out / f"trunkline-{job.version}-oci-{job.architecture[1]}.tar"
    commit = run("git", "rev-parse", "HEAD")
    image.make(image.Image(job.stage / "trunkline", inner, job.architecture[1], job.architecture[0], job.version, commit, job.epoch), path)
    return path


def make_sboms(job: Job, tools: Path, packages: list[Path]) -> list[Path]:
    """An SBOM in CycloneDX's format beside each package: the crates that are linked for this processor, and the package's checksum."""
    name = f"sbom-{os.getpid()}"
    try:
        run(tools / "cargo-cyclonedx", "cyclonedx", "-q", "--manifest-path", "crates/trunkline/Cargo.toml", "--format", "json", "--no-build-deps",
            "--target", job.triple, "--override-filename", name, "--spec-version", "1.5", SOURCE_DATE_EPOCH=str(job.epoch))
        text = (ROOT / "crates/trunkline" / f"{name}.json").read_text()
    finally:
        # It writes beside the manifest of each crate of the workspace.
        for path in ROOT.glob(f"**/{name}.json"):
            path.unlink()
    # The folder of the checkout must not be seen.
    bom = json.loads(text.replace(str(ROOT), "/trunkline"))
    written = []
    for package in packages:
        # An image holds files of the C library too.
        is_image = "-oci-" in package.name
        own = {**bom, "components": [*bom["components"], *(image.components(job.architecture[1]) if is_image else [])]}
        bom["metadata"]["component"]["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(package.read_bytes()).hexdigest()}]
        written.append(package.with_name(f"{package.name}.cdx.json"))
        written[-1].write_text(json.dumps(own, indent=1) + "\n")
    return written


def sums(out: Path, key: str | None) -> None:
    """SHA256SUMS of all that lies in `out`, and its signature by gpg."""
    listed = out / "SHA256SUMS"
    signature = out / "SHA256SUMS.asc"
    signature.unlink(missing_ok=True)
    files = sorted(path for path in out.iterdir() if path.is_file() and path != listed)
    listed.write_text("".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files))
    if key:
        run("gpg", "--batch", "--yes", "--armor", "--detach-sign", "--local-user", key, "--output", signature, listed)


def commit_time() -> int:
    """SOURCE_DATE_EPOCH, or the time of the commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or run("git", "log", "-1", "--format=%ct"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--target", choices=sorted(PROCESSORS), help="the processor [default: this machine's]")
    parser.add_argument("--program", type=Path, help="a program that is built already [default: build it]")
    parser.add_argument("--only", choices=KINDS, action="append", help="make this kind alone; may be repeated")
    parser.add_argument("--out", type=Path, help="folder of the packages [default: packages in the target directory]")
    parser.add_argument("--revision", default="1", help="revision of the packages of one version [default: 1]")
    parser.add_argument("--maintainer", default=os.environ.get("MAINTAINER") or "Trunkline maintainers <maintainers@trunkline.example>",
                        help="who answers for the packages [default: MAINTAINER]")
    parser.add_argument("--sign-key", help="the key by which gpg signs SHA256SUMS [default: no signature]")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    host = run("rustc", "--print", "host-tuple")
    triple = args.target or host
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").resolve()
    out = (args.out or target / "packages").resolve()
    out.mkdir(parents=True, exist_ok=True)
    kinds = args.only or KINDS
    tools = Path(run("packaging/tools", *kinds, *([] if args.only else ["sbom"])))
    program = (args.program or Path(run("packaging/build", triple))).resolve()
    stage = target / ("" if triple == host else triple) / "release/package"
    version = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]
    job = Job(triple, target, stage, out, program, version, args.revision, commit_time(), args.maintainer)
    if set(kinds) - {"image"}:
        lay_out(job)
    else:
        strip(job)
    packages = []
    if "deb" in kinds:
        packages.append(make_deb(job, tools))
    if "rpm" in kinds:
        packages.append(make_rpm(job, tools))
    if "tar" in kinds:
        packages.append(make_tar(job))
    if "image" in kinds:
        packages.append(make_image(job))
    if not args.only:
        packages += make_sboms(job, tools, packages)
    sums(out, args.sign_key)
    for path in packages:
        print(f"{path}  {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
