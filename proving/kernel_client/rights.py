#!/usr/bin/env python3
"""The rights of users on one tree: the host's own kernel, Trunkline over NFS and over SMB, and Samba must agree.

    rights.py [--only CASE ...] [--verbose]

The tree lies on the host and has many combinations of owner, group, permission bits and POSIX access lists
(rights_tree.py). Linux's own clients ask in a guest (rights_agent.py). The host's answer is right. Where a server
differs, `REASONS` gives the reason, and so does SEMANTICS.md ("Descriptors and mode bits"). Further cases cover the
lists themselves: inheritance, the effect of a mode on a list, and a list that is set over one protocol and read over
the others and with the host's own `getfacl`. The last case has a home share: each user mounts their own directory over
SMB, and NFS exports all of them. Needs the Debian package acl.
"""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, dual_workload, guest, kernels, rights_agent, runs
from proving.kernel_client import rights_tree as tree

HERE = Path(__file__).resolve().parent
SUITE = "kernel-rights"
LIMIT_S = 300
SMB = "vers=3.1.1,sec=ntlmsspi,noperm,nosharesock,actimeo=0"
NFS = "proto=tcp,sec=sys,actimeo=0,lookupcache=none"
# Rights of entries (RFC 8881 6.2.1.3). A descriptor has the same bits.
READS, WRITES = 0x120089, 0x120116
REFUSED = ("EACCES", "EPERM")
# The sides that are compared with the host: the mount, and the folder of the share with their copy of the tree.
SIDES = {"NFS": "/mnt/n", "SMB": "/mnt/c", "Samba": "/mnt/s"}


# SMB clients do not request these rights in this way. Reading implies running there (MS-FSA 2.1.5.1.2.1 has one right
# for the client's own check), and without POSIX extensions Linux sends no mode.
NOT_OVER_SMB = {"run", "set mode"}
ADDS_UP = "the rights of several groups add up (MS-DTYP 2.5.3.2, RFC 8881 6.2.1)"
EMPTY_MASK = "an empty mask takes all rights from named users (acl(5), Access check algorithm; Linux ignores such a list)"
WRITERS_SET_TIMES = "a user who may write may set any time (MS-FSA 2.1.5.15.2: WRITE_ATTRIBUTES, which w gives)"
# Samba's differences from the host concern times and names of directories. For these acts it returns the host's own
# answer.
SAMBA_ASKS_THE_HOST = {"read", "write", "read and write", "append", "cut", "list", "enter", "make a file", "remove"}


def bits_of(case: tree.Case, who: str) -> set[str] | None:
    """Return the rights that an entry of the list gives, or None if there is no such entry."""
    found = [entry.rpartition(":")[2] for entry in case["list"] if entry.startswith(f"{who}:")]
    return set(found[0]) - {"-"} if found else None


def expected(side: str, case: tree.Case, act: str, acts: dict[str, str]) -> tuple[bool, str]:
    """Return a side's expected answer where the host's is `acts`, and the reason if it differs."""
    host = acts[act] == "ok"
    group_bits = {letter for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if case["mode"] >> 3 & bit}
    if side != "Samba" and bits_of(case, "m") == set() and case["part"] in ("user", "group", "groups") and host and act not in ("set mode", "set times"):
        others = case["mode"] & 7
        needed = {"read": 4, "list": 4, "run": 1, "enter": 1}.get(act, 2)
        if others & needed:
            return False, EMPTY_MASK
    if side != "Samba" and act == "read and write" and case["part"] in ("groups", "both") and not host:
        mine = group_bits if case["part"] == "both" else bits_of(case, f"g:{tree.MY_GROUP}") or set()
        further = bits_of(case, f"g:{tree.FURTHER_GROUP}") or set()
        if {"r", "w"} <= (mine | further) & (bits_of(case, "m") or set()):
            return True, ADDS_UP
    if side == "SMB" and act == "set times" and expected(side, case, "touch", acts)[0]:
        return True, "" if host else WRITERS_SET_TIMES
    return host, ""


class Run:
    """The servers, the guest, and the cases."""

    def __init__(self, tally: Tally, server: servers.Server, samba: servers.Server | None, client: guest.Guest, verbose: bool) -> None:
        self.tally, self.server, self.samba, self.client, self.verbose = tally, server, samba, client, verbose
        self.share = server.share_directory("files")

    def ask(self, do: str, **arguments: Any) -> Any:
        """Send the guest a request. Returns its answer."""
        said = self.client.ask(LIMIT_S, do=do, **arguments)
        if isinstance(said, dict) and "refused" in said:
            raise guest.GuestEnded(f"{do} {arguments}: {said['refused']}")
        return said

    def case(self, label: str, wrong: list[str]) -> None:
        """Count a case, which passes if `wrong` is empty."""
        shown = wrong if self.verbose else wrong[:6]
        more = [f"and {len(wrong) - len(shown)} more"] if len(wrong) > len(shown) else []
        self.tally.add("fail" if wrong else "pass", label, "; ".join([*shown, *more]))

    def sides(self) -> dict[str, str]:
        """Return the sides that are present."""
        return {side: where for side, where in SIDES.items() if side != "Samba" or self.samba}

    def mount(self) -> None:
        """Mount the share over every protocol."""
        alice, bob = (f"user={user},password={password},{SMB}" for user, password in servers.accounts()[:2])
        config = (self.server.directory / "server" / "trunkline.toml").read_text()
        smb_port = re.findall(r"^smb_port = (\d+)$", config, re.MULTILINE)[0]
        at, share = guest.SERVER_ADDRESS, f"//{guest.SERVER_ADDRESS}/files"
        mounts = {"/mnt/n": (f"{at}:/files", f"vers=4.2,port={self.server.port},{NFS}", "nfs"),
                  "/mnt/n1": (f"{at}:/files", f"vers=4.1,port={self.server.port},{NFS}", "nfs"),
                  "/mnt/c": (share, f"port={smb_port},{alice}", "cifs"), "/mnt/m": (share, f"port={smb_port},modefromsid,{alice}", "cifs"),
                  "/mnt/b": (share, f"port={smb_port},{bob}", "cifs"),
                  "/mnt/home-0": (f"//{at}/homes", f"port={smb_port},{alice}", "cifs"),
                  "/mnt/home-1": (f"//{at}/homes", f"port={smb_port},{bob}", "cifs"),
                  "/mnt/homes": (f"{at}:/homes", f"vers=4.2,port={self.server.port},{NFS}", "nfs")}
        if self.samba:
            mounts["/mnt/s"] = (share, f"port={self.samba.port},{alice}", "cifs")
        for where, (source, options, kind) in mounts.items():
            if refused := self.ask("mount", where=where, source=source, options=options, kind=kind):
                raise guest.GuestEnded(f"mount of {where}: {refused}")

    def as_user(self, where: str, act: str, *words: Any, uid: int = tree.ME) -> Any:
        """Return the result of a user's action in the guest, or on the host itself where there is no mount."""
        if where:
            return self.ask("as_user", uid=uid, act=act, words=words)
        return rights_agent.as_user(uid, act, words)

    def who_may_do_what(self) -> None:
        for name in ("host", *self.sides()):
            tree.make(self.share / f"may-{name}")
        host, cases = self.as_user("", "probe", str(self.share / "may-host")), tree.cases()
        for side, where in self.sides().items():
            found = self.as_user(where, "probe", f"{where}/may-{side}")
            wrong, asked = [], 0
            reasons: Counter[str] = Counter()
            for name, acts in host.items():
                for act, on_host in acts.items():
                    if side != "NFS" and act in NOT_OVER_SMB or side == "Samba" and act not in SAMBA_ASKS_THE_HOST:
                        continue
                    wanted, why = expected(side, cases[name], act, acts)
                    told = found[name][act]
                    asked += 1
                    if (told == "ok") != wanted or told not in ("ok", *REFUSED):
                        wrong.append(f"{act} of {name} ({tree.describe(cases[name])}): {told}, the host says {on_host}")
                    elif why:
                        reasons[why] += 1
            print(f"        {side}: {asked} questions; {dict(reasons)}", flush=True)
            self.case(f"what may be done over {side}", wrong)

    def both_may(self, name: str) -> tuple[dict[int, dict[str, str]], list[str]]:
        """Return the rights of the owner and of the named user on a file, by the host, and the servers' differences."""
        acts, wrong, seen = ["read", "write"], [], {}
        for uid, mount in ((tree.ME, "/mnt/c"), (tree.NAMED, "/mnt/b")):
            seen[uid] = self.as_user("", "ask", str(self.share / name), *acts, uid=uid)
            for side, where in (("NFS", "/mnt/n"), ("SMB", mount)):
                found = self.as_user(where, "ask", f"{where}/{name}", *acts, uid=uid)
                wrong += [f"{act} by {uid} over {side}: {found[act]}, the host says {seen[uid][act]}" for act in acts
                          if (found[act] == "ok") != (seen[uid][act] == "ok")]
        return seen, wrong

    def changes(self) -> None:
        """The host, NFS and SMB change a list and a mode in turn. Each change applies to all at once."""
        name, named = "changed", f"u:{tree.NAMED}"
        path = self.share / name
        path.write_text("text")
        os.chown(path, tree.ME, tree.NOT_ME)

        def on_host(*words: str) -> Callable[[], None]:
            def act() -> None:
                subprocess.run([*words, str(path)], check=True, timeout=10)
            return act

        def mode(where: str, bits: int) -> Callable[[], Any]:
            return lambda: self.as_user(where, "mode", f"{where}/{name}", bits)

        def listed_over_nfs(bits: int) -> Callable[[], Any]:
            return lambda: self.ask("set", path=f"/mnt/n/{name}", attribute="system.nfs4_acl",
                                    value=dual_workload.as_nfs([(tree.NAMED, bits)]).hex())

        def listed_over_smb() -> None:
            descriptor = bytearray.fromhex(self.ask("get", path=f"/mnt/c/{name}", attribute="system.cifs_acl"))
            if dual_workload.set_rights(descriptor, READS, READS | WRITES) != 1:
                raise guest.GuestEnded(f"the descriptor has no entry for whom the list over NFS names: {descriptor.hex()}")
            self.ask("set", path=f"/mnt/c/{name}", attribute="system.cifs_acl", value=descriptor.hex())

        reads, writes = (True, False), (True, True)
        none = (False, False)
        steps = [
            ("chmod 600 on the host", on_host("chmod", "600"), none),
            ("setfacl on the host", on_host("setfacl", "-m", f"{named}:rw"), writes),
            *((f"chmod {bits:o} over {side}", mode(where, bits), may) for side, where in (("NFS", "/mnt/n"), ("SMB", "/mnt/m"))
              for bits, may in ((0o600, none), (0o640, reads), (0o700, none), (0o660, writes))),
            ("chmod 600 on the host, with a list", on_host("chmod", "600"), none),
            ("chmod 660 on the host, with a list", on_host("chmod", "660"), writes),
            ("a list over NFS", listed_over_nfs(READS), reads),
            ("chmod 600 on the host, under a descriptor", on_host("chmod", "600"), none),
            ("chmod 660 on the host, under a descriptor", on_host("chmod", "660"), reads),
            ("a list over SMB", listed_over_smb, writes),
            ("chmod 640 over NFS, under a descriptor", mode("/mnt/n", 0o640), reads),
            ("chmod 660 over NFS, under a descriptor", mode("/mnt/n", 0o660), reads),
            ("a list over NFS once more", listed_over_nfs(READS | WRITES), writes),
            ("chmod 700 over SMB, under a descriptor", mode("/mnt/m", 0o700), none),
            ("chmod 770 over SMB, under a descriptor", mode("/mnt/m", 0o770), none),
            ("setfacl on the host, under a descriptor", on_host("setfacl", "-m", f"{named}:r"), reads),
            ("setfacl -b on the host", on_host("setfacl", "-b"), none),
        ]
        for label, act, wanted in steps:
            told = act()
            if told not in ("ok", "", None):
                raise guest.GuestEnded(f"{label}: {told}")
            seen, wrong = self.both_may(name)
            told = tuple(seen[tree.NAMED][what] == "ok" for what in ("read", "write"))
            if told != wanted:
                wrong.append(f"the host lets {tree.NAMED} {told}, not {wanted}")
            if wrong:
                wrong.append(f"the host's list: {' '.join(tree.get_list(path))}")
            self.case(label, wrong)

    def inherited(self) -> None:
        """Files created below default lists have the same list as files that the host creates there."""
        host = {}
        for umask in (0o022, 0o077):
            host[umask] = self.made("host", "", umask)
            self.same_lists("NFS 4.2", umask, self.made("NFS", "/mnt/n", umask), host[umask])
            # RFC 8881 has no attribute for the mask. The client applies it to the mode, also below a default list (RFC
            # 8275 1).
            cut = self.made("host-cut", "", 0, umask)
            self.same_lists("NFS 4.1", umask, self.made("NFS41", "/mnt/n1", umask), cut)
            # SMB sends no mode. A server whose mask is 022 creates a file as with 666 and a directory as with 777.
            plain = {name: host[0o022][f"{name.partition('/')[0]}/{'f666' if '/f' in name else 'd777'}"] for name in host[umask]}
            self.same_lists("SMB", umask, self.made("SMB", "/mnt/c", umask), plain)

    def made(self, side: str, where: str, umask: int, cut: int = 0) -> dict[str, list[str]]:
        """Let the user create files and directories below each default list. Returns the host's lists of them."""
        base = f"made-{side}-{umask:o}-{cut:o}"
        tree.make_defaults(self.share / base)
        told = self.as_user(where, "make", f"{where or self.share}/{base}", umask, cut)
        self.case(f"things are made: {side}, umask {umask:o}", [f"{path}: {status}" for path, status in told.items() if status != "ok"])
        return {f"{directory.name}/{path.name}": tree.get_list(path) for directory in sorted((self.share / base).iterdir())
                for path in sorted(directory.iterdir())}

    def same_lists(self, side: str, umask: int, found: dict[str, list[str]], wanted: dict[str, list[str]]) -> None:
        wrong = [f"{name}: {' '.join(found.get(name, []))}, and on the host {' '.join(wanted[name])}" for name in wanted
                 if found.get(name) != wanted[name]]
        self.case(f"what is inherited over {side}, umask {umask:o}", wrong)

    def homes(self) -> None:
        """Each user has their own directory at the same mount line, and reaches no other by a name or a link."""
        above, users = self.share.parent / "homes", [user for user, _ in servers.accounts()[:2]]
        uids = [servers.first_uid() + number for number in range(2)]
        for number, (user, uid) in enumerate(zip(users, uids, strict=True)):
            told = self.as_user(f"/mnt/home-{number}", "mark", f"/mnt/home-{number}/mine", user, uid=uid)
            about = (above / user).stat()
            found = (told, (above / user / "mine").read_text(), about.st_uid, about.st_gid, about.st_mode & 0o7777)
            wanted = ("ok", user, uid, uid, 0o700)
            self.case(f"the home of {user}", [] if found == wanted else [f"{found}, not {wanted}"])
        other = users[1]
        (above / users[0] / "beside").symlink_to(f"../{other}")
        wrong = []
        for path in (f"/mnt/home-0/{other}/mine", "/mnt/home-0/beside/mine", f"/mnt/homes/{other}/mine"):
            told = self.as_user("/mnt/homes", "ask", path, "read", "write", uid=uids[0])
            wrong += [f"{path}: {told}"] if "ok" in told.values() else []
        self.case("no name and no link leads to another user's home", wrong)
        told = self.as_user("/mnt/homes", "ask", f"/mnt/homes/{users[0]}/mine", "read", "write", uid=uids[0])
        self.case("a home over NFS", [] if set(told.values()) == {"ok"} else [f"{told}"])

    def all(self, names: Iterable[str]) -> None:
        self.mount()
        for name in names:
            began = time.monotonic()
            getattr(self, name)()
            print(f"        {name}: {time.monotonic() - began:.0f} s", flush=True)
        self.case("the server lives", [] if self.server.alive() else ["it ended"])


CASES = ("who_may_do_what", "changes", "inherited", "homes")


def start_samba(stack: contextlib.ExitStack, network: guest.Network, share: Path) -> servers.Server | str:
    """Start Samba on the same directory. Returns the reason if it is not available."""
    samba = servers.Server("samba", "rights", network)
    (samba.directory / "shares").mkdir()
    (samba.directory / "shares" / "files").symlink_to(share)
    try:
        return stack.enter_context(samba)
    except servers.CannotStart as reason:
        return str(reason)


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--only", action="append", choices=CASES)
    parser.add_argument("--verbose", action="store_true", help="show every difference")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing() or guest.missing(("mount.nfs", "nfs-common")):
        skip_whole_suite(kernels.suite(SUITE), reason)
    if shutil.which("setfacl") is None:
        skip_whole_suite(kernels.suite(SUITE), "needs the Debian package acl")
    if reason := guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    os.umask(0o022)
    tally = Tally(kernels.suite(SUITE))
    with runs.in_one_guest(tally), contextlib.ExitStack() as stack:
        network = stack.enter_context(guest.Network())
        server = stack.enter_context(servers.Server("trunkline", "rights", network))
        found = start_samba(stack, network, server.share_directory("files"))
        samba = None if isinstance(found, str) else found
        if isinstance(found, str):
            tally.add("skip", "Samba", found)
        script = console.lay([HERE / "rights_agent.py"], server.directory)
        client = stack.enter_context(guest.Guest(network, [sys.executable, script]))
        client.answer(LIMIT_S)
        Run(tally, server, samba, client, options.verbose).all(options.only or CASES)


if __name__ == "__main__":
    main()
