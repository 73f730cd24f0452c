"""What goes wrong at the demo shop while one looks on: real exceptions, with the tracebacks of real
code.

For each kind in the order of its failures in `failures.py`, which tells what the past looked like.
"""

from __future__ import annotations

import errno
import json
import smtplib
import ssl
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from riverui.demo.payloads import Args

Mishap = Callable[[Mapping[str, Any]], object]
"""Raises something."""


class UpstreamError(Exception):
    """Another service's answer was no answer."""


class CardDeclined(Exception):
    """The customer's bank says no."""


class LedgerMismatch(Exception):
    """Debits and credits differ."""


def _relay_busy(args: Mapping[str, Any]) -> NoReturn:
    raise smtplib.SMTPResponseException(
        421, b"4.7.0 Too many connections from this host, try again later"
    )


def _connect(host: str, port: int) -> NoReturn:
    raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ({host!r}, {port})")


def _relay_refuses(args: Mapping[str, Any]) -> None:
    _connect("10.0.8.14", 587)


def _parcel_without_url(args: Mapping[str, Any]) -> object:
    context: dict[str, Any] = {"to": args.get("to"), "parcel": None}
    return context["parcel"]["url"]


def _endpoint(args: Mapping[str, Any]) -> str:
    endpoint = args.get("endpoint")
    return str(endpoint.get("url")) if isinstance(endpoint, dict) else "https://hooks.example"


def _post_times_out(args: Mapping[str, Any]) -> None:
    try:
        raise TimeoutError("the read operation timed out")
    except TimeoutError as error:
        raise UpstreamError(f"POST {_endpoint(args)}: no answer within 10 s") from error


def _check_status(url: str, status: int, body: str) -> None:
    if status >= 400:
        raise UpstreamError(f"POST {url}: {status} {body}")


def _post_unavailable(args: Mapping[str, Any]) -> None:
    _check_status(_endpoint(args), 503, "Service Unavailable: upstream connect error")


def _post_gone(args: Mapping[str, Any]) -> None:
    _check_status(_endpoint(args), 410, "Gone")


def _certificate_expired(args: Mapping[str, Any]) -> NoReturn:
    raise ssl.SSLCertVerificationError(
        1, "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: certificate has expired"
    )


def _unregistered(args: Mapping[str, Any]) -> None:
    _check_status("https://api.push.apple.example/3/device", 410, '{"reason":"Unregistered"}')


def _over_quota(args: Mapping[str, Any]) -> None:
    _check_status("https://fcm.example/v1/projects/shop-prod/messages:send", 429, "Quota exceeded")


def _index_busy(args: Mapping[str, Any]) -> None:
    _check_status(
        "http://opensearch:9200/_bulk", 429, "es_rejected_execution_exception [products_v7][3]"
    )


def _chunk(documents: list[object], size: int) -> list[object]:
    return [documents[start] for start in range(0, len(documents) + 1, size)]


def _one_too_many(args: Mapping[str, Any]) -> object:
    return _chunk([object()] * 5, 1)


def _features_late(args: Mapping[str, Any]) -> NoReturn:
    raise TimeoutError("feature store: no answer within 5 s")


def _no_model(args: Mapping[str, Any]) -> object:
    model: Any = None
    return model.score(args.get("signals"))


def _declined(args: Mapping[str, Any]) -> NoReturn:
    raise CardDeclined("payfold: 402 card_declined: insufficient_funds")


def _key_in_use(args: Mapping[str, Any]) -> None:
    _check_status(
        "https://api.payfold.example/captures", 409, "idempotency key is in use by another request"
    )


def _half_an_answer(args: Mapping[str, Any]) -> object:
    return json.loads('{"status": "succeeded", "reference": ')


def _ledger_closing(args: Mapping[str, Any]) -> NoReturn:
    raise UpstreamError("ledger: account 7734 is locked for closing until 02:00 UTC")


def _lock_timeout(args: Mapping[str, Any]) -> NoReturn:
    raise TimeoutError("sessions: canceling statement due to lock timeout")


def _unbalanced(args: Mapping[str, Any]) -> NoReturn:
    raise LedgerMismatch(f"ledger {args.get('ledger')} does not balance: off by 0.0100 in 1 entry")


def _no_image(args: Mapping[str, Any]) -> NoReturn:
    raise ValueError(f"cannot identify image file {args.get('source')!r}")


def _huge_image(args: Mapping[str, Any]) -> NoReturn:
    raise MemoryError("image of 1.2 gigapixels")


def _no_vat_rate(args: Mapping[str, Any]) -> object:
    rates = {"standard": "0.19", "reduced": "0.07"}
    return rates["vat_rate"]


def _query_cancelled(args: Mapping[str, Any]) -> NoReturn:
    raise TimeoutError(f"report {args.get('report')}: canceling statement due to statement timeout")


def _ffmpeg_fails(args: Mapping[str, Any]) -> NoReturn:
    command = ["ffmpeg", "-i", "in.mov", "-c:v", "libx264", "out.mp4"]
    raise subprocess.CalledProcessError(69, command, stderr="moov atom not found")


def _reset(args: Mapping[str, Any]) -> None:
    try:
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    except ConnectionResetError as error:
        raise UpstreamError(f"reading {args.get('file')} ended early") from error


MISHAPS: dict[str, tuple[Mishap, ...]] = {
    "email_send": (_relay_busy, _relay_refuses, _parcel_without_url),
    "webhook_delivery": (_post_times_out, _post_unavailable, _post_gone, _certificate_expired),
    "push_notification": (_unregistered, _over_quota),
    "search_index_update": (_index_busy, _one_too_many),
    "fraud_check": (_features_late, _no_model),
    "payment_capture": (_declined, _key_in_use, _half_an_answer),
    "subscription_renewal": (_ledger_closing,),
    "cleanup_sessions": (_lock_timeout,),
    "ledger_reconcile": (_unbalanced,),
    "image_resize": (_no_image, _huge_image),
    "invoice_render": (_no_vat_rate,),
    "report_export": (_query_cancelled,),
    "video_transcode": (_ffmpeg_fails,),
    "data_import": (_reset,),
}


def happen(kind: str, mishap: int, args: Args) -> None:
    """Raise the failure that was planned."""
    MISHAPS[kind][mishap](args)
