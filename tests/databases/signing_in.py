"""A Postgres that requires authentication: on TCP, with passwords, TLS and certificates."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.needs import need
from tests.ports import free_port

OWNER, PASSWORD = "river", "first: it's a 'secret'\\"
_START_SECONDS = 60
"""For a new server to take connections: a slow machine takes three."""
_RULES = """\
local all all trust
hostssl all certain 127.0.0.1/32 cert
hostssl all all 127.0.0.1/32 scram-sha-256
"""


class Authority:
    """Signs certificates, in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file = folder / "ca.crt"
        name = _name("an authority of this test's")
        self._issuer = name
        built = _builder(name, name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        self._write(self.file, built)

    def issue(self, name: str, *hosts: str) -> tuple[Path, Path]:
        """Return the files of a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(_name(name), self._issuer, key.public_key())
        if hosts:
            names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
            built = built.add_extension(names, critical=False)
        certificate, private = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        self._write(certificate, built)
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        private.chmod(0o600)
        return certificate, private

    def _write(self, file: Path, built: x509.CertificateBuilder) -> None:
        signed = built.sign(self._key, hashes.SHA256())
        file.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
    )


class Guarded:
    """A running server: TLS only, users with passwords, and `certain` with a certificate."""

    def __init__(self, port: int, authority: Authority, socket: Path) -> None:
        self.port = port
        self.authority = authority
        self.admin = f"postgresql://postgres@/postgres?host={socket}&port={port}"

    def change_password(self, password: str) -> None:
        """Give the user another password, and end the sessions that know the old one."""
        with psycopg.connect(self.admin, autocommit=True) as connection:
            connection.execute(
                psycopg.sql.SQL("alter role {} password {}").format(
                    psycopg.sql.Identifier(OWNER), psycopg.sql.Literal(password)
                )
            )
            connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s", [OWNER]
            )


@contextmanager
def guarded() -> Iterator[Guarded]:
    """Yield such a server, with a database `river` of the user `river`."""
    # The build that the demo brings knows no TLS.
    programs = Path(need("Postgres 13"))
    with TemporaryDirectory(prefix="riverui-guarded-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        authority = Authority(home)
        certificate, key = authority.issue("server", "localhost")
        port, data = free_port(), home / "data"
        data.mkdir(mode=0o700)
        for file in (certificate, key, authority.file):
            shutil.copy2(file, data)
        data_files = [data, *data.iterdir()]
        prefix = _as_owner(data_files)
        options = ["--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8"]
        # initdb wants an empty folder.
        kept = {file.name: file.read_bytes() for file in data.iterdir()}
        for file in data.iterdir():
            file.unlink()
        subprocess.run(
            [*prefix, programs / "initdb", "-D", data, "-U", "postgres", *options],
            check=True,
            capture_output=True,
            timeout=_START_SECONDS,
        )
        for name, content in kept.items():
            (data / name).write_bytes(content)
            (data / name).chmod(0o600)
        (data / "pg_hba.conf").write_text(_RULES)
        _give([*data.iterdir()], data)
        settings = {
            "fsync": "off",
            "listen_addresses": "127.0.0.1",
            "password_encryption": "scram-sha-256",
            "port": str(port),
            "ssl": "on",
            "ssl_ca_file": "ca.crt",
            "ssl_cert_file": "server.crt",
            "ssl_key_file": "server.key",
            "unix_socket_directories": str(data),
        }
        line = [*prefix, str(programs / "postgres"), "-D", str(data)]
        for name, value in settings.items():
            line += ["-c", f"{name}={value}"]
        with (home / "log").open("wb") as log:
            process = subprocess.Popen(line, stdout=log, stderr=log)
        try:
            server = Guarded(port, authority, data)
            _prepare(server, process, home / "log")
            yield server
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _as_owner(files: list[Path]) -> list[str]:
    """Return the command prefix that does not run a program as root."""
    if os.geteuid():
        return []
    line = ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
    if subprocess.run([*line, "true"], capture_output=True, check=False).returncode == 0:
        return line
    for file in files:
        os.chown(file, 65534, 65534)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def _give(files: list[Path], folder: Path) -> None:
    """Make the folder's owner that of the files."""
    owner = folder.stat()
    for file in files:
        os.chown(file, owner.st_uid, owner.st_gid)


def _prepare(server: Guarded, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            with psycopg.connect(server.admin, autocommit=True) as connection:
                connection.execute(f"create role {OWNER} login")
                connection.execute("create role certain login")
                connection.execute(f"create database river owner {OWNER}")
            server.change_password(PASSWORD)
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(log.read_text(errors="replace")) from None
            time.sleep(0.05)
