#!/usr/bin/env python3
"""The admin page in Chromium: it lets in, shows load, changes shares and users, closes open files; all of it by keyboard.

    run.py [--pictures DIR]

A server of its own is loaded by `trunkline load` while the page is looked at. Nothing but that server may be asked by the page,
and nothing may go wrong in its scripts. Every view is held against axe-core in both schemes (axe.py). With --pictures what is seen
is kept as PNG. Without Debian's chromium it is skipped.
"""

import argparse
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.admin_page import axe
from proving.admin_page.browser import Browser, BrowserError
from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite

# A change of load must be seen so soon.
SEEN_S = 2.0
# With a thousand sessions that work, and their client on the same machine, a look takes no longer than this.
MOST_LOOK_MS = 2000
PASSWORD = "s3cret-s3cret"
CONFIG = """
[server]
listen = ["127.0.0.1"]
smb_port = {port}
discovery = false
[admin]
listen = "127.0.0.1:0"
[[user]]
name = "ann"
password_file = "password"
uid = {uid}
[account.lab]
kind = "premium"
users = {{ ann = "full" }}
[share.docs]
path = "docs"
users = {{ ann = "full" }}
[share.projects]
path = "projects"
account = "lab"
provisioned_gib = 100
"""


class AdminPageServer:
    """A server with two shares in a directory of its own; a context manager that ends it."""

    def __init__(self, config: str = CONFIG, shares: tuple[str, ...] = ("docs", "projects", "made"), below: str | None = None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="proof-admin-", dir=below))
        self.port = servers.free_port()
        # What is trusted where the page is served over TLS.
        self.context: ssl.SSLContext | None = None
        for name in shares:
            (self.directory / name).mkdir()
        (self.directory / "password").write_text(PASSWORD + "\n")
        (self.directory / "password").chmod(0o600)
        (self.directory / "t.toml").write_text(config.format(uid=os.geteuid(), port=self.port))

    def __enter__(self) -> Self:
        with open(self.directory / "output", "w") as output, open(self.directory / "log", "w") as log:
            self._server = subprocess.Popen(self.line("serve"), stdin=subprocess.DEVNULL, stdout=output, stderr=log)
        try:
            end = time.monotonic() + 30
            while not (found := re.search("admin {6}(https?://[^/]+)/", (self.directory / "output").read_text())):
                if time.monotonic() > end or self._server.poll() is not None:
                    raise servers.CannotStart("trunkline", (self.directory / "log").read_text()[-500:])
                time.sleep(0.05)
            self.address = found[1]
            self.token = (self.directory / "state" / "admin-token").read_text().strip()
            while self.ask("status") is None:
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def line(self, words: str) -> list[str]:
        """A command of the program."""
        return [servers.program(), *words.split(), "--config", str(self.directory / "t.toml"), "--state-dir", str(self.directory / "state")]

    def ask(self, path: str) -> Any:
        """What the API answers; none as long as it does not."""
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.context) as answer:
                return json.load(answer)
        except ConnectionError:
            return None

    def status(self, path: str, token: str) -> int:
        """The status of an answer to a token."""
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refusal:
            return refusal.code

    def share(self, name: str) -> Any:
        """A share's settings; none when there is no such share."""
        return next((share["settings"] for share in self.ask("shares") if share["name"] == name), None)

    def operations(self) -> int:
        """Reads and writes since the start."""
        return sum(one["reads"] + one["writes"] for one in self.ask("overview")["counted"])

    def log(self) -> str:
        """All that the server has logged."""
        return (self.directory / "log").read_text()

    def load(self, share: str, seconds: float, *more: str, depth: int = 4) -> subprocess.Popen[bytes]:
        """Begin to read and write a share."""
        words = ["--rw", "randrw", "--bs", "4k", "--iodepth", str(depth), "--filesize", "4m", "--time_based", "--runtime", str(seconds), *more]
        return self.start_load(share, "ann", words)

    def start_load(self, share: str, user: str, words: list[str]) -> subprocess.Popen[bytes]:
        """Begin to load a share as these words of `trunkline load` say."""
        line = [servers.program(), "load", f"smb://{user}@127.0.0.1:{self.port}/{share}", "--password-file", str(self.directory / "password"), *words]
        return subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(self.directory / "load", "w"))


# A server that has nothing yet.
EMPTY_CONFIG = """
[server]
listen = ["127.0.0.1"]
smb_port = {port}
discovery = false
[admin]
listen = "127.0.0.1:0"
"""
VIEWS = ("overview", "share/projects", "shares", "accounts", "users", "sessions", "files", "operations", "tokens")
DIALOGS = ("share-dialog", "user-dialog", "token-dialog", "token-made", "question", "told")

FIGURE = "[...document.querySelectorAll('#now div')].find((box) => box.firstChild.textContent === {name!r})?.lastChild.textContent"
ROW = "[...document.querySelectorAll('#{table} tbody tr')].find((row) => row.cells[0].textContent === {name!r})"


def go(page: Browser, view: str) -> None:
    """Look at another view."""
    page.says(f"location.hash = '#/{view}'")
    section = "overview" if view.startswith("share/") else view
    page.until(f"!document.getElementById('view-{section}').hidden")


def focus(page: Browser, control: str) -> None:
    """Give a control the focus as soon as it can have it."""
    page.until(f"(({control})?.focus(), document.activeElement === {control} && document.activeElement !== null)")


def is_asked(page: Browser, text: str) -> None:
    """Wait for the question that comes first, whose focus is on the answer that changes nothing."""
    page.until("document.getElementById('question').open")
    asked = page.says("document.getElementById('question').textContent")
    assert text in asked, asked
    assert page.says("document.activeElement.value") == "no", "the question's focus is not on Cancel"


def let_in(place: AdminPageServer, page: Browser) -> None:
    """Without the token there is no page; a wrong one is refused; typed, the right one opens it."""
    page.open(place.address + "/")
    page.until("document.activeElement?.id === 'token'")
    assert page.says("document.getElementById('main').hidden"), "the page is open to whoever comes"
    page.type("0" * 48)
    page.press("Enter")
    page.until("document.getElementById('state').textContent.includes('not known here')")
    page.errors.clear()  # The refusal stands in the browser's own log.
    page.type(place.token)
    page.press("Enter")
    page.until("!document.getElementById('main').hidden")
    page.until(ROW.format(table="busy", name="projects"))


def load_is_seen(place: AdminPageServer, page: Browser) -> None:
    """A change of load is on the page within two seconds."""
    figure = FIGURE.format(name="Reads and writes /s")
    page.until(f"{figure} === '0'")
    before = place.operations()
    load = place.load("docs", 20)
    try:
        while place.operations() < before + 50:
            if load.poll() is not None:
                raise AssertionError("the load ended: " + (place.directory / "load").read_text()[-300:])
            time.sleep(0.01)
        begun = time.monotonic()
        page.until(f"parseFloat({figure}) > 0", 10)
        seen = time.monotonic() - begun
        assert seen < SEEN_S, f"seen after {seen:.2f} s"
        page.until("document.getElementById('latency').getAttribute('aria-label').includes('SMB Read 50 %')")
        page.until("(() => { const c = document.getElementById('iops'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
                   ".data; return d.some((value) => value > 0); })()")
        # The middle of all is no slower than the slowest hundredth, and both are told.
        page.until(f"parseFloat({FIGURE.format(name='Latency, 99 %')}) >= parseFloat({FIGURE.format(name='Latency, 50 %')})")
        go(page, "sessions")
        page.until("[...document.querySelectorAll('#sessions tbody tr')].some((row) => row.cells[0].textContent === 'ann')")
        go(page, "operations")
        write = ROW.format(table="apis", name="SMB Write")
        page.until(f"({write}) && [4, 5, 6, 7, 8, 9].every((at) => parseFloat({write}.cells[at].textContent) >= 0)")
    finally:
        load.terminate()
        load.wait()


def its_values_are_told_by_arrow_keys(_: AdminPageServer, page: Browser) -> None:
    """The arrow keys move over the values of a plot, as the pointer does; Escape leaves them."""
    go(page, "overview")
    focus(page, "document.getElementById('iops')")
    label = "document.getElementById('iops').getAttribute('aria-label')"
    page.press("ArrowLeft")
    page.press("ArrowLeft")
    page.until(f"{label}.includes('2 s ago')")
    page.press("Escape")
    page.until(f"!{label}.includes('ago')")


def limits_are_lines(place: AdminPageServer, page: Browser) -> None:
    """The page of a limited share has its limits in its plots; that of one without has none."""
    load = place.load("projects", 30)
    try:
        go(page, "overview")
        link = ROW.format(table="busy", name="projects") + ".querySelector('a')"
        focus(page, link)
        page.press("Enter")
        page.until("document.getElementById('overview-title').textContent === 'Share projects'")
        page.until("document.getElementById('share').value === 'projects'")
        for plot in ("throughput", "iops"):
            page.until(f"document.getElementById('{plot}').getAttribute('aria-label').includes('limit')")
            page.until(f"document.querySelector('#{plot}-legend .limit')")
        fact = "[...document.querySelectorAll('#facts div')].find((box) => box.firstChild.textContent === 'Limit, IOPS')?.lastChild.textContent"
        page.until(f"{fact}?.startsWith('3100')")
        # Red is nothing else in a plot.
        page.until("(() => { const c = document.getElementById('iops'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
                   "for (let at = 0; at < d.length; at += 4) if (d[at + 3] > 200 && d[at] > 150 && d[at + 1] < 70 && d[at + 2] < 70) return true; })()")
    finally:
        load.terminate()
        load.wait()
    go(page, "share/docs")
    page.until("document.getElementById('overview-title').textContent === 'Share docs'")
    page.until("!document.querySelector('#iops-legend .limit')")
    go(page, "overview")


def is_resized(place: AdminPageServer, page: Browser) -> None:
    """The size of a share is changed by keyboard; what cannot be bought is refused with the reason."""
    go(page, "shares")
    box = ROW.format(table="shares", name="projects") + ".querySelector('input')"
    for gib in ("99", "500"):
        page.until(f"({box}.focus(), {box}.select(), document.activeElement === {box})")
        page.type(gib)
        page.press("Enter")
        if gib == "99":
            page.until("document.getElementById('told').open")
            text = page.says("document.getElementById('told-text').textContent")
            assert "must be from 100 to 102400" in text, text
            assert place.share("projects")["provisioned_gib"] == 100
            page.press("Enter")
            page.until("!document.getElementById('told').open")
            page.errors.clear()  # The refusal stands in the browser's own log.
    page.says("document.activeElement.blur()")
    page.until(ROW.format(table="shares", name="projects") + ".cells[4].textContent.startsWith('3500')")
    assert place.share("projects")["provisioned_gib"] == 500


def is_made(place: AdminPageServer, page: Browser) -> None:
    """A share is made with the form, by keyboard, and deleted."""
    go(page, "shares")
    focus(page, "document.querySelector('#view-shares [data-opens]')")
    page.press("Enter")
    page.until("document.getElementById('share-dialog').open && document.activeElement.name === 'name'")
    page.type("made")
    page.press("Tab")
    page.type(str(place.directory / "made"))
    page.press("Enter")
    row = ROW.format(table="shares", name="made")
    page.until(row)
    assert place.share("made")["users"] == {"*": "write"}, place.share("made")
    # Nothing is deleted without a question, and Enter is no answer to it.
    focus(page, f"{row}.querySelector('button')")
    page.press("Enter")
    is_asked(page, "Delete share made?")
    page.press("Enter")
    page.until("!document.getElementById('question').open")
    assert place.share("made"), "it is deleted"
    focus(page, f"{row}.querySelector('button')")
    page.press("Enter")
    is_asked(page, "Delete share made?")
    page.press("Tab")
    page.press("Enter")
    page.until(f"!({row})")
    assert place.share("made") is None


def is_switched(place: AdminPageServer, page: Browser) -> None:
    """Multichannel of an account and metadata caching of a share are switched off by keyboard."""
    for table, name, key in (("accounts", "lab", "multichannel"), ("shares", "docs", "metadata_caching")):
        go(page, table)
        box = ROW.format(table=table, name=name) + ".querySelector('input[type=checkbox]')"
        page.until(f"({box}.focus(), document.activeElement === {box})")
        page.press(" ")
        end = time.monotonic() + 10
        while next(one for one in place.ask(table) if one["name"] == name)["settings"][key]:
            assert time.monotonic() < end, f"{key} is still on"
            time.sleep(0.05)


def fits_a_phone(_: AdminPageServer, page: Browser) -> None:
    """At the width of a phone nothing is wider than the screen."""
    page.size(390, 844, phone=True)
    page.until("document.documentElement.clientWidth <= 390")
    for view in VIEWS:
        go(page, view)
        wide = page.until("document.documentElement.scrollWidth")
        assert wide <= 390, f"{view} is {wide} pixels wide"
    page.size(1280, 900)


def users_are_made_changed_and_removed(place: AdminPageServer, page: Browser) -> None:
    """A user is added, logs on, gets another password and is removed, by keyboard; no password stays in the page or the log."""
    go(page, "users")
    page.until(ROW.format(table="users", name="ann"))
    row = ROW.format(table="users", name="zoe")

    def users() -> dict[str, Any]:
        return {user["name"]: user for user in place.ask("users")}

    focus(page, "document.querySelector('#view-users [data-opens]')")
    page.press("Enter")
    page.until("document.getElementById('user-dialog').open && document.activeElement.name === 'name'")
    for text in ("zoe", "first-Passw0rd!", "another", str(os.geteuid())):
        page.type(text)
        page.press("Tab")
    page.press("Enter")
    page.until("document.getElementById('told').open")
    assert "not the same" in page.says("document.getElementById('told-text').textContent")
    page.press("Enter")
    page.until("!document.getElementById('told').open")
    focus(page, "document.querySelector('#user-form [name=again]')")
    page.says("document.activeElement.select()")
    page.type("first-Passw0rd!")
    page.press("Enter")
    page.until(row)
    assert (users()["zoe"]["admin"], users()["zoe"]["uid"], users()["zoe"]["restriction"]) == (False, os.geteuid(), None), users()["zoe"]
    focus(page, f"{row}.querySelectorAll('button')[0]")
    page.press("Enter")
    page.until("document.getElementById('user-dialog').open && document.activeElement.name === 'password'")
    for _ in range(2):
        page.type("second-Passw0rd!")
        page.press("Tab")
    focus(page, "document.querySelector('#user-form [name=admin]')")
    page.press(" ")
    page.press("Enter")
    page.until(f"({row})?.cells[3].textContent === 'yes'")
    assert users()["zoe"]["admin"] is True
    page.until("document.querySelectorAll('#users tbody tr').length === 2")
    focus(page, "document.getElementById('find-users')")
    page.type("zo")
    page.until("document.querySelectorAll('#users tbody tr').length === 1")
    page.says("(document.getElementById('find-users').value = '', drawUsers(lists.users))")
    focus(page, f"{row}.querySelectorAll('button')[1]")
    page.press("Enter")
    is_asked(page, "Remove user zoe?")
    page.press("Tab")
    page.press("Enter")
    page.until(f"!({row})")
    assert list(users()) == ["ann"]
    inside = page.says("document.documentElement.outerHTML + [...document.querySelectorAll('input')].map((input) => input.value).join()")
    for secret in ("first-Passw0rd!", "second-Passw0rd!"):
        assert secret not in place.log() and secret not in inside, "a password is told"


def open_files_are_found_and_closed(place: AdminPageServer, page: Browser) -> None:
    """An open file is found, and closed by keyboard after a question; its client fails, and the log has it."""
    load = place.load("docs", 60)
    other = place.load("projects", 60)
    go(page, "files")
    row = "[...document.querySelectorAll('#opens tbody tr')].find((row) => row.cells[1]?.textContent === 'docs')"

    def opens() -> list[Any]:
        return [row for row in place.ask("open-files")["rows"] if row["share"] == "docs"]

    try:
        page.until(row)
        page.until("document.querySelectorAll('#opens tbody tr').length >= 2")
        focus(page, "document.getElementById('find-files')")
        page.type("docs")
        page.until("[...document.querySelectorAll('#opens tbody tr')].every((row) => row.cells[1]?.textContent === 'docs')")
        path = page.says(f"{row}.cells[0].textContent")
        assert page.says(f"{row}.cells[2].textContent") == "ann"
        for answer in ("Enter", "Escape"):
            focus(page, f"{row}.querySelector('button')")
            page.press("Enter")
            is_asked(page, path)
            page.press(answer)
            page.until("!document.getElementById('question').open")
            assert opens() and load.poll() is None, "it is closed"
        focus(page, f"{row}.querySelector('button')")
        page.press("Enter")
        is_asked(page, path)
        page.press("Tab")
        page.press("Enter")
        page.until("document.getElementById('done').textContent.includes('is closed')")
        load.wait(30)
        assert load.returncode != 0, "the load went on without its file"
        page.until("document.querySelector('#opens td.none')")
        closed = [line for line in place.log().splitlines() if "closed by an administrator" in line]
        assert closed and path in closed[-1] and "ann" in closed[-1], closed
    finally:
        page.says("document.getElementById('find-files').value = ''")
        for one in (load, other):
            one.terminate()
            one.wait()


def tokens_are_made_used_and_revoked(place: AdminPageServer, page: Browser) -> None:
    """A token is made by keyboard and shown once; it is good for what its role says; revoked, it is refused at once."""
    go(page, "tokens")
    page.until(ROW.format(table="tokens", name="admin-token"))
    row = ROW.format(table="tokens", name="prom")
    focus(page, "document.querySelector('#view-tokens [data-opens]')")
    page.press("Enter")
    page.until("document.getElementById('token-dialog').open && document.activeElement.name === 'name'")
    page.type("prom")
    for text in ("", "90d"):
        page.press("Tab")
        page.type(text)
    page.press("Enter")
    page.until("document.getElementById('token-made').open")
    token = page.says("document.getElementById('token-text').value")
    assert token.startswith("tl_") and page.says("getSelection().toString()") == token, "it cannot be copied at once"
    page.press("Escape")
    page.until("!document.getElementById('token-made').open && document.getElementById('token-text').value === ''")
    page.until(f"({row})?.cells[1].textContent === 'read' && {row}.cells[4].textContent !== 'never'")
    assert place.status("status", token) == 200 and place.status("tokens", token) == 403
    inside = page.says("document.documentElement.outerHTML + [...document.querySelectorAll('input')].map((input) => input.value).join()")
    assert token not in inside and token not in place.log(), "the token is told twice"
    focus(page, f"{row}.querySelector('button')")
    page.press("Enter")
    is_asked(page, "Revoke token prom?")
    page.press("Tab")
    page.press("Enter")
    page.until(f"!({row})")
    assert place.status("status", token) == 401


def a_role_sees_what_it_may_do(place: AdminPageServer, page: Browser) -> None:
    """With a token to read no control changes anything, and the page says why; one to operate closes and resizes."""
    script = axe.source()
    load = place.load("docs", 120)
    controls = ("[...document.querySelectorAll('main button, main td input, nav a[href=\"#/tokens\"]')]"
                ".filter((one) => one.checkVisibility()).map((one) => one.getAttribute('aria-label') || one.textContent)")
    try:
        for role in ("read", "operate"):
            token = subprocess.run(place.line(f"token add {role} --role {role}"), check=True, capture_output=True, text=True).stdout.strip()
            page.says(f"sessionStorage.setItem('token', {token!r})")
            page.open(f"{place.address}/#/overview")
            page.call("Page.reload")
            page.until("typeof caller === 'object' && caller !== null && document.getElementById('main')?.hidden === false")
            page.until(f"document.getElementById('role').textContent.includes('token {role} with the role {role}')")
            found = {}
            for view in VIEWS:
                go(page, view)
                page.says("poll().then(() => true)")
                if view == "files":
                    page.until("[...document.querySelectorAll('#opens tbody tr')].some((row) => row.cells[1]?.textContent === 'docs')")
                found[view] = page.says(controls)
                if script is not None and role == "read":
                    page.says(script + "; true")
                    told = violations(page, f"{view} to read")
                    assert not told, told
            if role == "read":
                assert not any(found.values()), found
            else:
                assert any("Close" in one for one in found["files"]) and any("GiB" in one for one in found["shares"]), found
                assert not any("New" in one or "Delete" in one or "Change" in one for all_ in found.values() for one in all_), found
            assert page.says("document.getElementById('view-tokens').textContent.includes('to the role administer only')")
        assert not page.errors, page.errors
        # A revoked token loses the page at the next look, and another one opens it again.
        subprocess.run(place.line("token revoke operate"), check=True, stdout=subprocess.DEVNULL)
        page.until("document.activeElement?.id === 'token'")
        page.errors.clear()  # The refusal stands in the browser's own log.
        page.type(place.token)
        page.press("Enter")
        page.until("document.getElementById('main')?.hidden === false && caller?.role === 'administer'")
        page.until("document.getElementById('role').hidden")
        go(page, "shares")
        page.until("[...document.querySelectorAll('#shares button')].some((one) => one.textContent === 'Delete')")
    finally:
        load.terminate()
        load.wait()


def a_dark_scheme_follows_the_browser(_: AdminPageServer, page: Browser) -> None:
    """Page and plots are dark when the browser says so, and light again."""
    go(page, "overview")
    lightness = "(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number); return (r + g + b) / 3; })()"
    for scheme, fits in (("dark", "< 60"), ("light", "> 200")):
        page.scheme(scheme)
        page.until(f"{lightness} {fits}")
        page.until(f"matchMedia('(prefers-color-scheme: {scheme})').matches")


def nothing_keeps_people_from_it(place: AdminPageServer, page: Browser) -> None:
    """axe-core finds nothing in any view and any dialog, in both schemes."""
    script = axe.source()
    if script is None:
        raise Skipped(f"axe-core {axe.VERSION} cannot be had: npm or its registry")
    load = place.load("projects", 120)
    try:
        page.says(script + "; true")
        found = []
        for scheme in ("light", "dark"):
            page.scheme(scheme)
            for view in VIEWS:
                go(page, view)
                # Colours change at once, and tables are full after the next look at the server.
                page.says("poll().then(() => true)")
                found += violations(page, f"{view}, {scheme}")
            for dialog in DIALOGS:
                page.says("(sure('Close this file?', 'Somebody has it open.', 'Close file'), true)" if dialog == "question"
                          else f"document.getElementById('{dialog}').showModal()")
                found += violations(page, f"{dialog}, {scheme}")
                page.says(f"document.getElementById('{dialog}').close()")
        assert not found, "; ".join(found)
    finally:
        page.scheme("light")
        load.terminate()
        load.wait()


def violations(page: Browser, where: str) -> list[str]:
    """What axe-core has against the page as it is."""
    told = page.says("axe.run().then((told) => told.violations.map((one) => one.id + ' ' + one.nodes.map((node) => node.target.join(' ') + ': '"
                     " + node.any.concat(node.all, node.none).map((check) => check.message).join(' ')).join(', ')))")
    return [f"{where}: {one}" for one in told]


def each_view_is_reached_by_keyboard(_: AdminPageServer, page: Browser) -> None:
    """From the top of the page Tab leads to the link that skips the views, and on to each view; Enter opens it."""
    go(page, "overview")
    page.says("(document.activeElement.blur(), document.getElementById('skip').focus())")
    page.press("Enter")
    page.until("document.activeElement.id === 'main'")
    for view in ("shares", "accounts", "users", "sessions", "files", "operations", "tokens", "overview"):
        page.says("document.getElementById('share').focus()")
        for _step in range(10):
            page.press("Tab")
            if page.says("document.activeElement.getAttribute('href')") == f"#/{view}":
                break
        page.press("Enter")
        page.until(f"!document.getElementById('view-{view}').hidden")
        page.until("document.activeElement.id === 'main'")


def an_empty_server_explains_itself(_: AdminPageServer, page: Browser) -> None:
    """A server without shares and users says the first three steps, which are done one after the other."""
    with AdminPageServer(EMPTY_CONFIG, ("made",)) as empty:
        page.open(f"{empty.address}/#token={empty.token}")
        page.until("document.getElementById('first')?.hidden === false")
        done = "[...document.querySelectorAll('.steps li')].map((step) => step.className === 'done')"
        page.until(f"!{done}.some(Boolean)")
        focus(page, "document.querySelector('#step-share button')")
        page.press("Enter")
        page.until("document.activeElement.name === 'name'")
        page.type("made")
        page.press("Tab")
        page.type(str(empty.directory / "made"))
        page.press("Enter")
        page.until(f"{done}[0]")
        focus(page, "document.querySelector('#step-user button')")
        page.press("Enter")
        page.until("document.activeElement.name === 'name'")
        for text in ("ann", PASSWORD, PASSWORD, str(os.geteuid())):
            page.type(text)
            page.press("Tab")
        page.press("Enter")
        page.until(f"{done}[1]")
        how = page.says("document.getElementById('how-linux').textContent")
        assert "/made" in how and "username=ann" in how and str(empty.port) in how, how
        load = empty.load("made", 20)
        try:
            page.until("document.getElementById('first').hidden")
        finally:
            load.terminate()
            load.wait()
        outside = [url for url in page.requests if not url.startswith(empty.address)]
        page.requests[:] = outside


def a_thousand_sessions_are_usable(place: AdminPageServer, page: Browser) -> None:
    """With a thousand sessions a look at the server is short, the table is cut, and one of them is found."""
    load = place.load("projects", 60, "--connections", "1000", "--rate_iops", "500", depth=1000)
    other = place.load("docs", 60)
    title = "document.getElementById('sessions-title').textContent"
    go(page, "sessions")
    try:
        page.until(f"{title}.startsWith('SMB sessions: 1001, the first 50 are shown')", 60)
        took = sorted(page.says("(async () => { const t = performance.now(); await poll(); return performance.now() - t; })()")
                      for _ in range(7))
        page.says("document.getElementById('find').focus()")
        page.type("docs")
        page.until(f"{title} === 'SMB sessions: 1001, 1 found'", 10)
        page.until("document.querySelectorAll('#sessions tbody tr').length === 1")
        assert took[3] < MOST_LOOK_MS, f"a look took {took} ms"
        print(f"a look at 1001 sessions takes {took[3]:.0f} ms", flush=True)
    finally:
        page.says("document.getElementById('find').value = ''")
        for one in (load, other):
            one.terminate()
        for one in (load, other):
            one.wait()


def asks_nobody_else(place: AdminPageServer, page: Browser) -> None:
    """Every request went to the server, and no script failed."""
    outside = [url for url in page.requests if not url.startswith((place.address + "/", "about:"))]
    assert page.requests and not outside, outside
    assert not page.errors, page.errors


class Skipped(Exception):
    """A case that needs what is not there."""


CASES = [
    let_in, limits_are_lines, load_is_seen, its_values_are_told_by_arrow_keys, is_resized, is_made, is_switched, users_are_made_changed_and_removed,
    open_files_are_found_and_closed, tokens_are_made_used_and_revoked, a_role_sees_what_it_may_do, a_dark_scheme_follows_the_browser,
    each_view_is_reached_by_keyboard, fits_a_phone, nothing_keeps_people_from_it, a_thousand_sessions_are_usable, asks_nobody_else,
    an_empty_server_explains_itself,
]


# What stands on the pictures: shares of several kinds, some of them limited.
PICTURE_CONFIG = """
[server]
name = "files"
listen = ["127.0.0.1"]
smb_port = {port}
discovery = false
[admin]
listen = "127.0.0.1:0"
[[user]]
name = "ann"
password_file = "password"
uid = {uid}
[[user]]
name = "bob"
password_file = "password"
uid = {uid}
[[user]]
name = "eve"
password_file = "password"
uid = {uid}
[account.lab]
kind = "premium"
[share.projects]
path = "projects"
account = "lab"
provisioned_gib = 1200
users = {{ "*" = "full" }}
[share.home]
path = "home"
users = {{ "*" = "full" }}
[share.media]
path = "media"
users = {{ "*" = "full" }}
[share.backup]
path = "backup"
account = "lab"
provisioned_gib = 400
users = {{ "*" = "full" }}
"""
PICTURE_S = 302
# Share, user, from which second of the five minutes for how long, and the load.
PICTURE_LOADS = [
    ("projects", "ann", 0, 390, "--rw randread --bs 16k --iodepth 4 --rate_iops 1300 --filesize 64m"),
    ("projects", "bob", 0, 390, "--rw randwrite --bs 16k --iodepth 2 --rate_iops 550 --filesize 32m"),
    ("projects", "eve", 70, 270, "--rw randrw --bs 8k --iodepth 16 --rate_iops 2600 --filesize 16m"),
    ("media", "bob", 25, 120, "--rw read --bs 256k --iodepth 2 --rate_iops 120 --filesize 96m"),
    ("media", "bob", 190, 200, "--rw read --bs 256k --iodepth 2 --rate_iops 170 --filesize 96m"),
    ("home", "eve", 0, 390, "--metadata open --iodepth 4 --rate_iops 350"),
    ("backup", "ann", 110, 100, "--rw write --bs 128k --iodepth 2 --rate_iops 150 --filesize 96m"),
    ("backup", "ann", 265, 125, "--rw write --bs 128k --iodepth 2 --rate_iops 200 --filesize 96m"),
]


def take_pictures(page: Browser, directory: Path) -> None:
    """Keep what the page looks like after five minutes of load: light, dark, and on a phone."""
    directory.mkdir(parents=True, exist_ok=True)
    page.size(1280, 960)
    # Paths as administrators have them, where that can be.
    below = "/srv" if os.access("/srv", os.W_OK) else None
    with AdminPageServer(PICTURE_CONFIG, ("projects", "home", "media", "backup"), below) as place:
        page.open(f"{place.address}/#token={place.token}")
        page.until("document.getElementById('main')?.hidden === false")
        begun, left, loads = time.monotonic(), sorted(PICTURE_LOADS, key=lambda load: load[2]), []
        while time.monotonic() < begun + PICTURE_S:
            while left and left[0][2] <= time.monotonic() - begun:
                share, user, _, seconds, words = left.pop(0)
                loads.append(place.start_load(share, user, [*words.split(), "--time_based", "--runtime", str(seconds)]))
            time.sleep(0.2)
        page.picture(directory / "admin.png")
        page.scheme("dark")
        go(page, "share/projects")
        # Latencies of one share are known from when it is looked at.
        time.sleep(60)
        page.picture(directory / "admin-dark.png")
        page.scheme("light")
        page.size(390, 844, phone=True)
        go(page, "overview")
        time.sleep(2)
        page.says("scrollTo(0, 0)")
        page.picture(directory / "admin-phone.png")
        for load in loads:
            load.terminate()
        for load in loads:
            load.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], metavar="CASE", help="with the first case, which lets in")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="takes five minutes more")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    browser = shutil.which("chromium")
    if browser is None:
        skip_whole_suite("admin-page", "there is no chromium; scripts/foreign installs it")
    tally = Tally("admin-page")
    try:
        with AdminPageServer() as place, Browser(browser) as page:
            page.size(1280, 900)
            for case in CASES:
                if options.only and case is not let_in and case.__name__ not in options.only:
                    continue
                try:
                    case(place, page)
                    tally.add("pass", case.__name__)
                except Skipped as why:
                    tally.add("skip", case.__name__, str(why))
                except (AssertionError, TimeoutError) as why:
                    tally.add("fail", case.__name__, f"{why} {page.errors}")
        if options.pictures:
            with Browser(browser) as page:
                take_pictures(page, options.pictures)
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    except BrowserError as why:
        tally.add("fail", "browser", str(why))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
