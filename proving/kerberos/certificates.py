"""Certificates of domain controllers, by an authority of their own (OpenSSL)."""

import subprocess
from pathlib import Path

from proving.kerberos.network import environment

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30, env=environment())


def make_authority(directory: Path) -> Path:
    """Make an authority in a directory, and return its certificate."""
    directory.mkdir(parents=True, exist_ok=True)
    certificate = directory / "ca.pem"
    _openssl("req", "-x509", *_KEY, "-keyout", directory / "ca.key", "-out", certificate, "-days", "30", "-subj", "/CN=Authority of the domain")
    return certificate


def make_certificate(directory: Path, host: str) -> dict[str, Path]:
    """Make the certificate of a host, and return the settings of Samba for it."""
    authority = make_authority(directory)
    key, request, certificate, names = (directory / name for name in ("key.pem", "request.pem", "cert.pem", "names"))
    names.write_text(f"subjectAltName=DNS:{host}\n")
    _openssl("req", *_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={host}")
    _openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", directory / "ca.key", "-CAcreateserial", "-days", "30", "-extfile",
             names, "-out", certificate)
    # Samba takes no key that others may read.
    key.chmod(0o600)
    return {"tls keyfile": key, "tls certfile": certificate, "tls cafile": authority}
