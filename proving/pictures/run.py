#!/usr/bin/env python3
"""Makes the pictures of docs/ and the recordings of docs/examples/ anew, from real runs of the release build.

    run.py [--out DIR] [--only NAME ...]

Needs root (the copy goes over an emulated link) and Debian's chromium, and a machine that does nothing else: what is seen is what was
measured. Start reading at `PICTURES`. Those of docs/admin.md come from proving/admin_page/run.py.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.admin_page import run as admin_page
from proving.admin_page.browser import Browser
from proving.harness import server as servers
from proving.pictures.terminal import Recording

HERE = Path(__file__).resolve().parent
DOCS = servers.ROOT / "docs"
SHARE = "files"
# The path that is copied over: a round trip, what each connection carries, and what all of them do.
LINK = "--rtt 23ms --flow-rate 140Mbit --rate 560Mbit"
STEP_S = 50


class Stage:
    """What a picture is made with."""

    def __init__(self, page: Browser, out: Path) -> None:
        self.page, self.out = page, out
        self.examples = out / "examples"
        self.examples.mkdir(exist_ok=True)

    def crop(self, picture: Path, element: str, width: int = 1100, margin: int = 12) -> None:
        """Keep a picture of an element of the page."""
        self.page.size(width, 900)
        time.sleep(0.5)
        left, top, wide, high = self.page.says(
            f"(() => {{ const box = document.querySelector({element!r}).getBoundingClientRect();"
            " return [box.left + scrollX, box.top + scrollY, box.width, box.height]; })()")
        self.page.picture(picture, (max(left - margin, 0), max(top - margin, 0), wide + 2 * margin, high + 2 * margin))

    def tell(self, recording: Recording, name: str) -> None:
        """Keep a recording as an asciicast, and its last screen as a picture."""
        (self.examples / f"{name}.cast").write_text(recording.cast())
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory) / "screen.html"
            place.write_text(recording.page())
            self.page.open(place.as_uri())
            self.page.until("document.getElementById('screen')")
            self.crop(self.examples / f"{name}.png", "#screen", margin=0)


def _environment(server_accounts: list[tuple[str, str]]) -> dict[str, str]:
    return dict(os.environ, TERM="xterm", TRUNKLINE_PASSWORD=server_accounts[0][1],
                PATH=f"{Path(servers.program()).parent}:{os.environ['PATH']}")


def copy(stage: Stage) -> None:
    """A tree with a large file and many small ones goes over a long path, is found whole, and is copied again."""
    accounts = servers.accounts()
    recording = Recording("trunkline copy over 23 ms")
    with tempfile.TemporaryDirectory() as directory, servers.Server("trunkline", "bench", reachable=True) as server:
        source = Path(directory) / "photos"
        (source / "small").mkdir(parents=True)
        (source / "film.mp4").write_bytes(os.urandom(400_000_000))
        for number in range(1000):
            (source / "small" / f"{number:04}.jpg").write_bytes(os.urandom(4096))
        (Path(server.share_directory(SHARE)) / "photos").mkdir(mode=0o777)
        os.chmod(Path(server.share_directory(SHARE)) / "photos", 0o777)
        typed = f"trunkline link {LINK} -- trunkline copy photos smb://{accounts[0][0]}@{{host}}:{server.port}/{SHARE}/photos"
        for _ in range(2):
            recording.type(typed)
            os.chdir(directory)
            recording.run(typed.split(), _environment(accounts), 120)
        os.chdir(HERE)
    stage.tell(recording, "copy-example")


def load(stage: Stage) -> None:
    """What one, two and four channels are worth on a path whose connections are narrow; the report's plots, and the terminal."""
    accounts = servers.accounts()
    recording = Recording("trunkline load over 5 ms")
    with tempfile.TemporaryDirectory() as directory, servers.Server("trunkline", "bench", reachable=True) as server:
        report = stage.examples / "measure-example.html"
        typed = (f"trunkline link --rtt 5ms --flow-rate 300Mbit --rate 2Gbit -- trunkline load smb://{accounts[0][0]}@{{host}}:{server.port}/{SHARE}"
                 " --rw randread --bs 4k,64k,1m --iodepth 4,32 --channels 1,2,4 --filesize 256m --runtime 3 --ramp_time 1"
                 " --html report.html")
        recording.type(typed)
        os.chdir(directory)
        recording.run(typed.split(), _environment(accounts), 300)
        os.chdir(HERE)
        shutil.copy(Path(directory) / "report.html", report)
    (stage.examples / "measure-example.cast").write_text(recording.cast())
    stage.page.open(report.as_uri())
    stage.page.until("document.querySelector('svg')")
    stage.crop(stage.examples / "measure-example.png", ".plots")


def provision(stage: Stage) -> None:
    """A share that its size holds back, and what a larger one gives it, on the admin page."""
    with admin_page.Place() as place:
        _open(stage.page, place)
        with _busy(_load(place, "projects") + "--rw randread --bs 64k --iodepth 16 --filesize 64m".split()):
            for gib in (100, 2000):
                subprocess.run(place.line("share set projects") + [f"provisioned_gib={gib}"], check=True, stdout=subprocess.DEVNULL)
                time.sleep(STEP_S)
            stage.crop(stage.out / "provision.png", "section.plots")


def metadata_caching(stage: Stage) -> None:
    """What metadata caching is worth where each look at the store takes a millisecond: off, then on."""
    place = admin_page.Place()
    with (place.directory / "t.toml").open("a") as configuration:
        configuration.write("[server.testing]\nmetadata_delay_us = 1000\n")
    with place:
        _open(stage.page, place)
        with _busy(_load(place, "docs") + "--metadata open --files 1000 --iodepth 16".split()):
            for caching in ("off", "on"):
                subprocess.run(place.line("share set docs") + [f"metadata_caching={caching}"], check=True, stdout=subprocess.DEVNULL)
                time.sleep(STEP_S)
            stage.crop(stage.out / "metadata-caching.png", "section.plots")


def metrics(stage: Stage) -> None:
    """Transactions by API of a share at work, as a command tells them."""
    recording = Recording("trunkline status transactions")
    with admin_page.Place() as place:
        with _busy(_load(place, "projects") + "--rw randrw --bs 64k --iodepth 16 --filesize 64m".split()):
            time.sleep(STEP_S)
            for words in ("status transactions --share projects", "status workload"):
                recording.type(f"trunkline {words}")
                recording.run(place.line(words), os.environ, 30)
    stage.tell(recording, "metrics")


def _load(place: admin_page.Place, share: str) -> list[str]:
    return [servers.program(), "load", f"smb://ann@127.0.0.1:{place.port}/{share}", "--password-file", str(place.directory / "password"),
            "--runtime", str(4 * STEP_S)]


@contextlib.contextmanager
def _busy(command: list[str]) -> Iterator[None]:
    """A load beside what is done meanwhile."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as load:
        try:
            yield
        finally:
            load.terminate()


def _open(page: Browser, place: admin_page.Place) -> None:
    page.size(1100, 900)
    page.open(f"{place.address}/#token={place.token}")
    page.until("document.getElementById('main')?.hidden === false")


PICTURES = [copy, load, provision, metadata_caching, metrics]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=DOCS, metavar="DIR")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("there is no chromium; scripts/foreign installs it")
    options.out.mkdir(parents=True, exist_ok=True)
    with Browser(browser) as page:
        stage = Stage(page, options.out.resolve())
        for picture in PICTURES:
            if not options.only or picture.__name__ in options.only:
                print(picture.__name__, flush=True)
                picture(stage)


if __name__ == "__main__":
    main()
