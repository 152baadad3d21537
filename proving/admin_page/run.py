#!/usr/bin/env python3
"""The admin page in Chromium: log-on, live load, creating and resizing shares, switching Multichannel, all by keyboard.

    run.py [--pictures DIR]

The suite starts its own server, and `trunkline load` loads it while the page is open. The page may send requests to
that server only, and its scripts may not fail. --pictures keeps screenshots as PNG. The suite is skipped without
Debian's chromium.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.admin_page.browser import Browser, BrowserError
from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite

# The page must show a change of load within this many seconds.
SEEN_S = 2.0
# The longest refresh with a thousand active sessions whose client runs on the same machine.
MAX_REFRESH_MS = 2000
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
    """A server with two shares in its own directory; a context manager that ends it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="proof-admin-"))
        self.port = servers.free_port()
        for name in ("docs", "projects", "made"):
            (self.directory / name).mkdir()
        (self.directory / "password").write_text(PASSWORD + "\n")
        (self.directory / "password").chmod(0o600)
        (self.directory / "t.toml").write_text(CONFIG.format(port=self.port))

    def __enter__(self) -> Self:
        with open(self.directory / "output", "w") as output, open(self.directory / "log", "w") as log:
            self._server = subprocess.Popen(self.line("serve"), stdin=subprocess.DEVNULL, stdout=output, stderr=log)
        try:
            end = time.monotonic() + 30
            while "admin      http://" not in (said := (self.directory / "output").read_text()):
                if time.monotonic() > end or self._server.poll() is not None:
                    raise servers.CannotStart("trunkline", (self.directory / "log").read_text()[-500:])
                time.sleep(0.05)
            self.address = "http://" + said.split("admin      http://")[1].split("/")[0]
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
        """Return the command line of a command of the program."""
        return [servers.program(), *words.split(), "--config", str(self.directory / "t.toml"), "--state-dir", str(self.directory / "state")]

    def ask(self, path: str) -> Any:
        """Return the API's answer, or None while the API does not answer."""
        request = urllib.request.Request(f"{self.address}/api/v1/{path}", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)
        except ConnectionError:
            return None

    def share(self, name: str) -> Any:
        """Return a share's settings, or None when no such share exists."""
        return next((share["settings"] for share in self.ask("shares") if share["name"] == name), None)

    def operations(self) -> int:
        """Return the number of reads and writes since the start."""
        return sum(one["reads"] + one["writes"] for one in self.ask("overview")["counted"])

    def load(self, share: str, seconds: float, *more: str, depth: int = 4) -> subprocess.Popen[bytes]:
        """Start a load on a share, with reads and writes."""
        target = f"smb://ann@127.0.0.1:{self.port}/{share}"
        words = ["load", target, "--rw", "randrw", "--bs", "4k", "--iodepth", str(depth), "--filesize", "4m", "--time_based", "--runtime", str(seconds),
                 "--password-file", str(self.directory / "password"), *more]
        return subprocess.Popen([servers.program(), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=open(self.directory / "load", "w"))


FIGURE = "[...document.querySelectorAll('#now div')].find((box) => box.firstChild.textContent === {name!r})?.lastChild.textContent"
ROW = "[...document.querySelectorAll('#{table} tbody tr')].find((row) => row.cells[0].textContent === {name!r})"


def opens_with_the_token(server: AdminPageServer, page: Browser) -> None:
    """The page does not open without the token. It refuses a wrong token, and opens once the right one is typed."""
    page.open(server.address + "/")
    page.until("document.activeElement?.id === 'token'")
    assert page.says("document.getElementById('main').hidden"), "the page is open without a token"
    page.type("0" * 48)
    page.press("Enter")
    page.until("document.getElementById('state').textContent.includes('not the token')")
    page.errors.clear()  # The browser logs the refusal as an error.
    page.type(server.token)
    page.press("Enter")
    page.until("!document.getElementById('main').hidden")
    page.until(ROW.format(table="shares", name="projects"))


def shows_load(server: AdminPageServer, page: Browser) -> None:
    """The page shows a change of load within two seconds."""
    figure = FIGURE.format(name="Reads and writes /s")
    page.until(f"{figure} === '0'")
    before = server.operations()
    load = server.load("docs", 20)
    try:
        while server.operations() < before + 50:
            if load.poll() is not None:
                raise AssertionError("the load ended: " + (server.directory / "load").read_text()[-300:])
            time.sleep(0.01)
        begun = time.monotonic()
        page.until(f"parseFloat({figure}) > 0", 10)
        seen = time.monotonic() - begun
        assert seen < SEEN_S, f"seen after {seen:.2f} s"
        page.until("document.getElementById('latency').getAttribute('aria-label').includes('SMB Read')")
        page.until("[...document.querySelectorAll('#sessions tbody tr')].some((row) => row.cells[0].textContent === 'ann')")
        page.until("[...document.querySelectorAll('#apis tbody tr')].some((row) => row.cells[0].textContent === 'SMB Write')")
        page.until("(() => { const c = document.getElementById('iops'); const d = c.getContext('2d').getImageData(0, 0, c.width, c.height)"
                   ".data; return d.some((value) => value > 0); })()")
    finally:
        load.terminate()
        load.wait()


def resizes_a_share(server: AdminPageServer, page: Browser) -> None:
    """The keyboard changes the size of a share. The page refuses an impossible size and shows the reason."""
    box = ROW.format(table="shares", name="projects") + ".querySelector('input')"
    for gib in ("99", "500"):
        page.until(f"({box}.focus(), {box}.select(), document.activeElement === {box})")
        page.type(gib)
        page.press("Enter")
        if gib == "99":
            page.until("document.getElementById('told').open")
            text = page.says("document.getElementById('told-text').textContent")
            assert "must be from 100 to 102400" in text, text
            assert server.share("projects")["provisioned_gib"] == 100
            page.press("Enter")
            page.until("!document.getElementById('told').open")
            page.errors.clear()  # The browser logs the refusal as an error.
    page.says("document.activeElement.blur()")
    page.until(ROW.format(table="shares", name="projects") + ".cells[4].textContent.startsWith('3500')")
    assert server.share("projects")["provisioned_gib"] == 500


def creates_a_share(server: AdminPageServer, page: Browser) -> None:
    """The form creates a share, by keyboard, and deletes it."""
    page.says("document.querySelector('summary').click()")
    page.says("document.querySelector('#create input[name=name]').focus()")
    page.type("made")
    page.press("Tab")
    page.type(str(server.directory / "made"))
    page.press("Enter")
    row = ROW.format(table="shares", name="made")
    page.until(row)
    assert server.share("made")["users"] == {"*": "write"}, server.share("made")
    page.says("window.confirm = () => true")
    page.says(f"{row}.querySelector('button').focus()")
    page.press("Enter")
    page.until(f"!({row})")
    assert server.share("made") is None


def switches_settings(server: AdminPageServer, page: Browser) -> None:
    """The keyboard switches off the Multichannel of an account and the metadata caching of a share."""
    for table, name, key in (("accounts", "lab", "multichannel"), ("shares", "docs", "metadata_caching")):
        box = ROW.format(table=table, name=name) + ".querySelector('input[type=checkbox]')"
        page.until(f"({box}.focus(), document.activeElement === {box})")
        page.press(" ")
        end = time.monotonic() + 10
        while next(one for one in server.ask(table) if one["name"] == name)["settings"][key]:
            assert time.monotonic() < end, f"{key} is still on"
            time.sleep(0.05)


def fits_a_phone(_: AdminPageServer, page: Browser) -> None:
    """At the width of a phone no element is wider than the screen."""
    page.size(390, 844, phone=True)
    page.until("document.documentElement.clientWidth <= 390")
    wide = page.until("document.documentElement.scrollWidth")
    page.size(1280, 900)
    assert wide <= 390, f"{wide} pixels wide"


def a_thousand_sessions_are_usable(server: AdminPageServer, page: Browser) -> None:
    """With a thousand sessions a refresh is short, the page cuts the table, and the filter finds a single session."""
    load = server.load("projects", 60, "--connections", "1000", "--rate_iops", "500", depth=1000)
    other = server.load("docs", 60)
    title = "document.getElementById('sessions-title').textContent"
    try:
        page.until(f"{title}.startsWith('SMB sessions: 1001, the first 50 are shown')", 60)
        took = sorted(page.says("(async () => { const t = performance.now(); await poll(); return performance.now() - t; })()")
                      for _ in range(7))
        page.says("document.getElementById('find').focus()")
        page.type("docs")
        page.until(f"{title} === 'SMB sessions: 1001, 1 found'", 10)
        page.until("document.querySelectorAll('#sessions tbody tr').length === 1")
        assert took[3] < MAX_REFRESH_MS, f"a refresh took {took} ms"
        print(f"a refresh with 1001 sessions takes {took[3]:.0f} ms", flush=True)
    finally:
        page.says("document.getElementById('find').value = ''")
        for one in (load, other):
            one.terminate()
        for one in (load, other):
            one.wait()


def contacts_only_the_server(server: AdminPageServer, page: Browser) -> None:
    """Every request went to the server, and no script failed."""
    outside = [url for url in page.requests if not url.startswith((server.address + "/", "about:"))]
    assert page.requests and not outside, outside
    assert not page.errors, page.errors


CASES = [
    opens_with_the_token, shows_load, resizes_a_share, creates_a_share, switches_settings, fits_a_phone, a_thousand_sessions_are_usable,
    contacts_only_the_server,
]


def take_pictures(server: AdminPageServer, page: Browser, directory: Path) -> None:
    """Take screenshots of the page under load."""
    directory.mkdir(parents=True, exist_ok=True)
    page.says("document.querySelector('details').open = false")
    page.size(1280, 1100)
    page.says("scrollTo(0, 0)")
    loads = [server.load("docs", 60), server.load("projects", 60)]
    time.sleep(30)
    page.picture(directory / "admin.png")
    page.size(390, 844, phone=True)
    page.says("scrollTo(0, 0)")
    time.sleep(2)
    page.picture(directory / "admin-phone.png")
    for load in loads:
        load.terminate()
        load.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pictures", type=Path, metavar="DIR")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    browser = shutil.which("chromium")
    if browser is None:
        skip_whole_suite("admin-page", "there is no chromium; scripts/foreign installs it")
    tally = Tally("admin-page")
    try:
        with AdminPageServer() as server, Browser(browser) as page:
            page.size(1280, 900)
            for case in CASES:
                try:
                    case(server, page)
                    tally.add("pass", case.__name__)
                except (AssertionError, TimeoutError) as why:
                    tally.add("fail", case.__name__, f"{why} {page.errors}")
            if options.pictures:
                take_pictures(server, page, options.pictures)
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    except BrowserError as why:
        tally.add("fail", "browser", str(why))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
