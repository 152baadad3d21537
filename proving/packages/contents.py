"""Looks at packages without installing them: each function gives what is wrong, as one line, or nothing."""

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
# The .deb is at most this large.
MOST_DEB_BYTES = 9_000_000
# The C library of the oldest release that the packages are for, Debian 12, and the versions that they ask for.
NEWEST_GLIBC, NEEDED_GLIBC = (2, 36), (2, 34)
UNITS = ("trunkline.service", "trunkline-node.service", "trunkline-domain-renew.service", "trunkline-domain-renew.timer")
SHIPPED = """
etc/apparmor.d/abstractions/trunkline etc/apparmor.d/trunkline etc/trunkline/trunkline.toml usr/bin/trunkline
usr/lib/firewalld/services/trunkline.xml usr/lib/ocf/resource.d/trunkline/trunkline usr/lib/systemd/system/trunkline.service
usr/lib/systemd/system/trunkline-node.service usr/lib/systemd/system/trunkline-domain-renew.service
usr/lib/systemd/system/trunkline-domain-renew.timer usr/lib/sysusers.d/trunkline.conf usr/share/bash-completion/completions/trunkline
usr/share/doc/trunkline/NOTICES.gz usr/share/doc/trunkline/README.md usr/share/doc/trunkline/changelog.Debian.gz
usr/share/doc/trunkline/changelog.gz usr/share/doc/trunkline/copyright usr/share/doc/trunkline/docs/install.md
usr/share/fish/vendor_completions.d/trunkline.fish usr/share/man/man1/trunkline.1.gz usr/share/man/man1/trunkline-serve.1.gz
usr/share/man/man1/trunkline-share-create.1.gz usr/share/man/man5/trunkline.toml.5.gz usr/share/trunkline/dashboards/trunkline.json
usr/share/zsh/vendor-completions/_trunkline
""".split()


def output(*words: str | Path) -> str:
    """What a command prints, with its errors."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=120)
    return done.stdout.strip()


def lintian(deb: Path) -> str:
    """Debian's own check. A warning counts as well, since each one has been read."""
    said = output("lintian", "--fail-on", "error,warning", "--allow-root", deb)
    return "; ".join(line for line in said.splitlines() if re.match(r"[EW]:", line))


def size(deb: Path) -> str:
    found = deb.stat().st_size
    return "" if found <= MOST_DEB_BYTES else f"{found / 1e6:.2f} MB, at most {MOST_DEB_BYTES / 1e6:.0f} MB"


def files(deb: Path) -> str:
    listed = {line.split()[5].removeprefix("./") for line in output("dpkg-deb", "-c", deb).splitlines()}
    lacking = [path for path in SHIPPED if path not in listed]
    return f"lacks {', '.join(lacking)}" if lacking else ""


def c_library(program: Path) -> str:
    """The versions of the C library's symbols, held against what the package asks for."""
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_(\d+\.\d+)", output("objdump", "-T", program))}
    newest = max(versions, default=(0, 0))
    if not versions or newest > NEWEST_GLIBC:
        return f"needs the C library {newest}, and Debian 12 has {NEWEST_GLIBC}"
    return "" if newest <= NEEDED_GLIBC else f"needs {newest}, and the packages ask for {NEEDED_GLIBC}"


def is_stripped(program: Path) -> str:
    return "has a symbol table" if ".symtab" in output("objdump", "-h", program) or "debug_info" in output("objdump", "-h", program) else ""


def manual(tree: Path) -> str:
    """Each command that `--help` lists has a page, and each page is clean to groff."""
    pages = tree / "usr/share/man"
    todo, lacking = [["trunkline"]], []
    while todo:
        command = todo.pop()
        if not (pages / "man1" / f"{'-'.join(command)}.1.gz").exists():
            lacking.append("-".join(command))
        shown = output(tree / "usr/bin/trunkline", *command[1:], "--help").partition("\nCommands:\n")[2].partition("\n\n")[0]
        todo += [[*command, name] for name in re.findall(r"^  (\w[\w-]*)", shown, re.MULTILINE) if name != "help"]
    if lacking:
        return f"no page for {', '.join(sorted(lacking))}"
    for page in sorted(pages.glob("man*/*.gz")):
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANWIDTH": "80"}, timeout=30)
        if done.returncode != 0 or done.stderr.strip():
            return f"{page.name}: {done.stderr.strip().splitlines()[:1]}"
    return ""


def other_programs(tree: Path) -> str:
    """The files for other programs are such that these take them."""
    ElementTree.parse(tree / "usr/lib/firewalld/services/trunkline.xml")
    checks = [["sh", "-n", tree / "usr/lib/ocf/resource.d/trunkline/trunkline"],
              ["bash", "-n", tree / "usr/share/bash-completion/completions/trunkline"],
              ["apparmor_parser", "-Q", "-K", "-T", "-I", tree / "etc/apparmor.d", tree / "etc/apparmor.d/trunkline"],
              [tree / "usr/bin/trunkline", "config", "check", "--config", tree / "etc/trunkline/trunkline.toml", "--state-dir", tree / "none"]]
    for words in checks:
        done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        if done.returncode != 0:
            return f"{words[0]}: {done.stdout.strip()}"
    return ""


def node_unit(deb: Path) -> str:
    """An installation neither enables nor starts the unit of a node, and removal stops it. The agent can be run."""
    scripts = {name: output("dpkg-deb", "-I", deb, name) for name in ("postinst", "prerm")}
    if "trunkline-node" in scripts["postinst"]:
        return "postinst acts on trunkline-node.service"
    if "stop trunkline-node.service" not in scripts["prerm"]:
        return "prerm does not stop trunkline-node.service"
    agent = next((line for line in output("dpkg-deb", "-c", deb).splitlines() if "resource.d/trunkline/trunkline" in line), "")
    return "" if agent.startswith("-rwxr-xr-x") else f"the agent of Pacemaker is {agent or 'missing'}"


def rpm(package: Path) -> str:
    """rpm installs it below a root of its own, verifies it and removes it; the scripts are for a machine with systemd."""
    requires = output("rpm", "-qp", "--requires", package).splitlines()
    if "libc.so.6(GLIBC_2.34)(64bit)" not in requires or "systemd" not in requires:
        return f"requires {requires}"
    scripts = output("rpm", "-qp", "--scripts", package)
    if any(word not in scripts for word in ("systemd-sysusers trunkline.conf", "preset trunkline.service", "try-restart trunkline.service")):
        return f"has these scripts: {scripts}"
    if output("rpm", "-qpc", package) != "/etc/trunkline/trunkline.toml":
        return "the configuration is not marked as one"
    with tempfile.TemporaryDirectory(prefix="proof-rpm-") as root:
        rpm_words = ["rpm", "--root", root, "--dbpath", "/var/lib/rpm"]
        said = output(*rpm_words, "-i", "--nodeps", "--noscripts", "--ignoreos", package)
        installed = (Path(root) / "usr/bin/trunkline").exists() and (Path(root) / "usr/lib/systemd/system/trunkline.service").exists()
        verified = output(*rpm_words, "-V", "--nodeps", "--noscripts", "trunkline")
        config = Path(root) / "etc/trunkline/trunkline.toml"
        config.write_text("# mine\n")
        removed = output(*rpm_words, "-e", "--noscripts", "trunkline")
        kept = config.with_name("trunkline.toml.rpmsave")
        if not installed or verified:
            return f"install: {said} verify: {verified}"
        return "" if kept.exists() and not (Path(root) / "usr/bin/trunkline").exists() else f"remove: {removed}"


def tar(package: Path) -> str:
    """The program in the tar runs where it is unpacked."""
    with tempfile.TemporaryDirectory(prefix="proof-tar-") as root, tarfile.open(package) as opened:
        opened.extractall(root, filter="data")
        (top,) = Path(root).iterdir()
        said = output(top / "bin/trunkline", "--version")
        wanted = ("LICENSE", "trunkline.toml", "trunkline.service", "share/man/man1/trunkline.1.gz", "share/trunkline/ocf/trunkline")
        lacking = [name for name in wanted if not (top / name).exists()]
        return f"lacks {lacking}" if lacking else "" if said.startswith("trunkline ") else said


def unit(tree: Path) -> str:
    """systemd finds no mistake in the units."""
    with tempfile.TemporaryDirectory(prefix="proof-unit-") as directory:
        copies = []
        for name in UNITS:
            copies.append(Path(directory) / name)
            text = (tree / "usr/lib/systemd/system" / name).read_text()
            copies[-1].write_text(text.replace("/usr/bin/trunkline", str(tree / "usr/bin/trunkline")))
        said = output("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *copies)
    return said if "trunkline" in said else ""
