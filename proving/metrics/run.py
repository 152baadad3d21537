#!/usr/bin/env python3
"""Debian's Prometheus scrapes a loaded server, and every query of the Grafana dashboard has a result.

    run.py

The server is that of ../admin_page, with one limited and one unlimited share. It is scraped on loopback, and over TLS with
a token and with a client certificate as from another host; whoever has neither is refused. The suite is skipped without
Debian's prometheus. Start reading at `main`.
"""

import contextlib
import json
import math
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.admin_page import run as admin_page
from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite

DASHBOARD = servers.ROOT / "dashboards" / "trunkline.json"
PATIENCE_S = 60
# Grafana's variables: all shares and protocols, and intervals that fit two scrapes a second.
VARIABLES = {"$share": ".*", "$protocol": ".*", "$__rate_interval": "5s", "$__range": "1m"}


class Prometheus:
    """A Prometheus that scrapes jobs, each with its address; a context manager that ends it."""

    def __init__(self, jobs: list[dict[str, Any]]) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="proof-prometheus-"))
        self.address = f"127.0.0.1:{servers.free_port()}"
        (self._home / "prometheus.yml").write_text(json.dumps({
            "global": {"scrape_interval": "500ms", "scrape_timeout": "400ms"},
            "scrape_configs": jobs,
        }))
        if shutil.which("promtool"):
            subprocess.run(["promtool", "check", "config", f"{self._home}/prometheus.yml"], check=True, stdout=subprocess.DEVNULL)

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
def _at_work(settings: str, context: ssl.SSLContext | None = None) -> Iterator[tuple[admin_page.AdminPageServer, str]]:
    """Run a server with metrics whose shares are both read and written. Yields it and the address of its metrics."""
    server = admin_page.AdminPageServer()
    server.context = context
    configuration = server.directory / "t.toml"
    configuration.write_text(configuration.read_text().replace("[admin]\n", f"[admin]\n{settings}"))
    with server:
        loads = [server.load(share, 3 * PATIENCE_S) for share in ("docs", "projects")]
        try:
            yield server, re.findall("https?://([^/]+)/metrics", (server.directory / "output").read_text())[0]
        finally:
            for load in loads:
                load.terminate()
                load.wait()


def _certificates(place: Path) -> None:
    """Make a certificate of the server, an authority of clients, and certificates of clients: of it, expired, of another."""
    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=place, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=server", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
            "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", "page.key", "-out", "page.pem")
    for name in ("clients", "others"):
        openssl("req", "-x509", *key, "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    for name, authority, days in (("good", "clients", "2"), ("other", "others", "2"), ("expired", "clients", "-1")):
        openssl("req", *key, "-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}.example.net", "-addext",
                "extendedKeyUsage=clientAuth", "-keyout", f"{name}.key", "-out", f"{name}.csr")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-days", days,
                "-copy_extensions", "copyall", "-out", f"{name}.pem")


def _status(address: str, place: Path, path: str, token: str | None = None, client: str | None = None) -> int:
    """Return the status of an answer over TLS; 0 where the handshake ends without one."""
    context = ssl.create_default_context(cafile=str(place / "page.pem"))
    if client:
        context.load_cert_chain(place / f"{client}.pem", place / f"{client}.key")
    request = urllib.request.Request(f"https://localhost:{address.rsplit(':', 1)[1]}{path}")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=20, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as refusal:
        return refusal.code
    except (ssl.SSLError, ConnectionError, urllib.error.URLError):
        return 0


def _from_elsewhere(tally: Tally) -> None:
    """A server whose metrics other hosts reach is scraped with a token and with a client certificate, and not without."""
    with tempfile.TemporaryDirectory(prefix="proof-metrics-") as directory:
        place = Path(directory)
        _certificates(place)
        # The page of the same server is served over TLS too, on loopback.
        settings = f'metrics = "0.0.0.0:0"\ntls_certificate = "{place}/page.pem"\ntls_key = "{place}/page.key"\ntls_client_ca = "{place}/clients.pem"\n'
        with _at_work(settings, ssl.create_default_context(cafile=str(place / "page.pem"))) as (server, address):
            token = subprocess.run(server.line("token add prometheus --role read"), check=True, capture_output=True, text=True).stdout
            (place / "token").write_text(token)
            target = [{"targets": [f"localhost:{address.rsplit(':', 1)[1]}"]}]
            tls = {"ca_file": str(place / "page.pem")}
            certificate = {name: {**tls, "cert_file": str(place / f"{name}.pem"), "key_file": str(place / f"{name}.key")}
                           for name in ("good", "other", "expired")}
            jobs: dict[str, dict[str, Any]] = {
                "token": {"authorization": {"credentials_file": str(place / "token")}, "tls_config": tls},
                "certificate": {"tls_config": certificate["good"]},
                "neither": {"tls_config": tls},
                "another-authority": {"tls_config": certificate["other"]},
                "expired": {"tls_config": certificate["expired"]},
            }
            scraped = [{"job_name": name, "scheme": "https", "static_configs": target, **job} for name, job in jobs.items()]
            with Prometheus(scraped) as prometheus:
                for name, up in (("token", 1), ("certificate", 1), ("neither", 0), ("another-authority", 0), ("expired", 0)):
                    question = f'up{{job="{name}"}} == {up}'
                    _case(tally, f"scraped over TLS: {name} is {'up' if up else 'down'}", lambda: prometheus.until_answered(question))
                _case(tally, "over TLS the shares are there", lambda: prometheus.until_answered('trunkline_open_files{job="token",file_share="docs"} > 0'))
                subprocess.run(server.line("token revoke prometheus"), check=True, stdout=subprocess.DEVNULL)
                _case(tally, "a revoked token is down at the next scrape", lambda: prometheus.until_answered('up{job="token"} == 0'))
            for title, expected, words in (
                ("no token", 401, {}), ("a wrong token", 401, {"token": "tl_wrong"}), ("a revoked token", 401, {"token": token.strip()}),
                ("a wrong token beside a good certificate", 401, {"token": "tl_wrong", "client": "good"}), ("a certificate", 200, {"client": "good"}),
                ("a certificate of another authority", 0, {"client": "other"}), ("an expired certificate", 0, {"client": "expired"}),
            ):
                got = _status(address, place, "/metrics", **words)
                tally.add("pass" if got == expected else "fail", f"over TLS, {title}", f"{got} and not {expected}")
            for path in ("/livez", "/readyz"):
                got = _status(address, place, path)
                tally.add("pass" if got == 200 else "fail", f"{path} without a token", str(got))


def _case(tally: Tally, title: str, act: Callable[[], object]) -> None:
    try:
        act()
        tally.add("pass", title)
    except AssertionError as why:
        tally.add("fail", title, str(why))


def main() -> None:
    servers.clean_up_when_told_to_end()
    if shutil.which("prometheus") is None:
        skip_whole_suite("metrics", "there is no prometheus; scripts/foreign installs it")
    tally = Tally("metrics")
    try:
        with _at_work('metrics = "127.0.0.1:0"\n') as (_, address):
            with Prometheus([{"job_name": "trunkline", "static_configs": [{"targets": [address]}]}]) as prometheus:
                for title, question in [("it is scraped", 'up{job="trunkline"} == 1'), *questions()]:
                    _case(tally, title, lambda: prometheus.until_answered(question))
        if shutil.which("openssl"):
            _from_elsewhere(tally)
        else:
            tally.add("skip", "over TLS", "there is no openssl")
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
