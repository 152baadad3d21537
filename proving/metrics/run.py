#!/usr/bin/env python3
"""Debian's Prometheus scrapes a loaded server, and every query of the Grafana dashboard has a result.

    run.py

The server is that of ../admin_page, with one limited and one unlimited share. The suite is skipped without Debian's
prometheus. Start reading at `main`.
"""

import contextlib
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.admin_page import run as admin_page
from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite

DASHBOARD = servers.ROOT / "dashboards" / "trunkline.json"
PATIENCE_S = 60
# Grafana's variables: all shares and protocols, and intervals that fit two scrapes a second.
VARIABLES = {"$share": ".*", "$protocol": ".*", "$__rate_interval": "5s", "$__range": "1m"}


class Prometheus:
    """A Prometheus that scrapes one address; a context manager that ends it."""

    def __init__(self, scraped: str) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="proof-prometheus-"))
        self.address = f"127.0.0.1:{servers.free_port()}"
        (self._home / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "scrape_configs": [{"job_name": "trunkline", "static_configs": [{"targets": [scraped]}]}],
        }))

    def __enter__(self) -> Self:
        words = [f"--config.file={self._home}/prometheus.yml", f"--storage.tsdb.path={self._home}/data", f"--web.listen-address={self.address}"]
        with open(self._home / "log", "w") as log:
            self._child = subprocess.Popen(["prometheus", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def __exit__(self, *_: object) -> None:
        self._child.terminate()
        try:
            self._child.wait(30)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        shutil.rmtree(self._home, ignore_errors=True)

    def ask(self, question: str) -> list[float] | None:
        """Return the values of all series of a query. Returns None as long as Prometheus does not answer; a refusal is
        an error."""
        address = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": question})
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return [float(series["value"][1]) for series in json.load(answer)["data"]["result"]]
        except urllib.error.HTTPError as refusal:
            if refusal.code == 503:  # It has not read its own state yet.
                return None
            raise AssertionError(refusal.read().decode(errors="replace")[-300:]) from None
        except OSError:
            if self._child.poll() is not None:
                raise AssertionError((self._home / "log").read_text()[-500:]) from None
            return None

    def until_answered(self, question: str) -> list[float]:
        """Return the first result of a query that contains a number."""
        end = time.monotonic() + PATIENCE_S
        while True:
            values = self.ask(question)
            if values and any(math.isfinite(value) for value in values):
                return values
            if time.monotonic() > end:
                raise AssertionError(f"answered with {values}: {question}")
            time.sleep(0.2)


def questions() -> Iterator[tuple[str, str]]:
    """Return the title and the query of every panel of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            question = target["expr"]
            for name, value in VARIABLES.items():
                question = question.replace(name, value)
            yield panel["title"], question


@contextlib.contextmanager
def _at_work() -> Iterator[str]:
    """Run a server with metrics whose shares are both read and written. Yields the address of the metrics."""
    server = admin_page.AdminPageServer()
    configuration = server.directory / "t.toml"
    configuration.write_text(configuration.read_text().replace("[admin]\n", '[admin]\nmetrics = "127.0.0.1:0"\n'))
    with server:
        loads = [server.load(share, 3 * PATIENCE_S) for share in ("docs", "projects")]
        try:
            yield re.findall("http://([^/]+)/metrics", (server.directory / "output").read_text())[0]
        finally:
            for load in loads:
                load.terminate()
                load.wait()


def main() -> None:
    servers.clean_up_when_told_to_end()
    if shutil.which("prometheus") is None:
        skip_whole_suite("metrics", "there is no prometheus; scripts/foreign installs it")
    tally = Tally("metrics")
    try:
        with _at_work() as scraped, Prometheus(scraped) as prometheus:
            for title, question in [("it is scraped", 'up{job="trunkline"} == 1'), *questions()]:
                try:
                    prometheus.until_answered(question)
                    tally.add("pass", title)
                except AssertionError as why:
                    tally.add("fail", title, str(why))
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
