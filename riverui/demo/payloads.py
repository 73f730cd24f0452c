"""What the demo shop's jobs carry, log and give back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from random import Random

Args = dict[str, object]
Line = tuple[str, str, dict[str, object]]
"""Level, message and attributes of one log line."""


def _id(rng: Random) -> int:
    """Return an id larger than 2**53, which a viewer that takes JSON numbers for floats shows
    wrong.
    """
    return 1_840_021_394_850_918_403 + rng.randrange(10**12)


def _money(rng: Random, low: int = 5, high: int = 900) -> Decimal:
    return Decimal(rng.randrange(low * 100, high * 100)) / 100


def _hex(rng: Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


_NAMES = (
    "mira.okafor",
    "jonas.weber",
    "li.na",
    "a.ferreira",
    "søren.dahl",
    "zoë.martin",
    "k.nakamura",
    "omar.haddad",
)
_ENDPOINTS = (
    (412, "https://hooks.nordlicht.example/shop"),
    (87, "https://api.bluewhale.example/v2/events?source=shop"),
    (1290, "https://erp.hanse-logistik.example/inbound/orders"),
    (33, "https://zap.glue.example/hooks/catch/99141/b2k"),
    (2051, "https://legacy.krone-textil.example:8443/webhook.php"),
)
_EVENTS = ("order.paid", "order.shipped", "order.refunded", "customer.updated", "stock.low")
_TITLES = (
    "Your parcel is on its way",
    "Zurück im Lager: Alpaka-Decke",
    "עגלת הקניות שלך מחכה",
    "50 % auf Sommerschuhe 👟",
)
_SKUS = ("ALP-BLK-140", "SHOE-42-WHT", "LAMP-BRASS", "MUG-SET-6", "TENT-2P-GRN")


def _person(rng: Random) -> str:
    return f"{rng.choice(_NAMES)}@mail.example"


def _order(rng: Random) -> Args:
    return {
        "id": _id(rng),
        "number": f"SO-{rng.randrange(100_000, 999_999)}",
        "total": {"amount": _money(rng), "currency": rng.choice(("EUR", "EUR", "USD", "CHF"))},
    }


def email_args(rng: Random) -> Args:
    """Return the args of an email."""
    return {
        "template": rng.choice(
            (
                "order_confirmed",
                "order_shipped",
                "password_reset",
                "cart_reminder",
                "review_request",
            )
        ),
        "to": _person(rng),
        "locale": rng.choice(("de-DE", "en-GB", "fr-FR", "he-IL")),
        "order": _order(rng),
    }


def email_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by an email."""
    return [
        (
            "INFO",
            "rendering template",
            {"template": args.get("template"), "locale": args.get("locale")},
        ),
        (
            "INFO",
            "handing over to relay",
            {"to": args.get("to"), "size_bytes": rng.randrange(9_000, 60_000)},
        ),
        (
            "INFO",
            "accepted by relay",
            {"message_id": f"<{_hex(rng, 16)}@shop.example>", "code": 250},
        ),
    ]


def webhook_args(rng: Random) -> Args:
    """Return the args of a call of a customer's webhook."""
    number, url = rng.choice(_ENDPOINTS)
    return {
        "customer": {
            "id": rng.choice((42, 7, 1_337, 90_210)),
            "plan": rng.choice(("starter", "business")),
        },
        "endpoint": {"id": number, "url": url, "version": "2026-04"},
        "event": {"id": f"evt_{_hex(rng, 20)}", "type": rng.choice(_EVENTS)},
        "payload": {
            "order": _order(rng),
            "lines": [
                {
                    "sku": rng.choice(_SKUS),
                    "quantity": rng.randrange(1, 6),
                    "price": _money(rng, 5, 120),
                }
                for _ in range(rng.randrange(1, 4))
            ],
        },
    }


def webhook_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a call of a customer's webhook."""
    endpoint = args.get("endpoint")
    url = endpoint.get("url") if isinstance(endpoint, dict) else ""
    return [
        ("DEBUG", "signing payload", {"algorithm": "hmac-sha256", "key_id": f"whk_{_hex(rng, 6)}"}),
        ("INFO", "posting", {"url": url, "timeout": "10s"}),
        ("INFO", "delivered", {"status": 200, "elapsed": f"{rng.uniform(40, 900):.1f}ms"}),
    ]


def push_args(rng: Random) -> Args:
    """Return the args of a push notification."""
    return {
        "title": rng.choice(_TITLES),
        "device_tokens": [_hex(rng, 32) for _ in range(rng.randrange(1, 3))],
        "collapse_key": f"campaign-{rng.randrange(100, 140)}",
        "user_id": _id(rng),
    }


def push_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a push notification."""
    return [
        (
            "INFO",
            "pushed",
            {"provider": rng.choice(("apns", "fcm")), "accepted": rng.randrange(1, 3)},
        )
    ]


def index_args(rng: Random) -> Args:
    """Return the args of an update of the search index."""
    return {
        "index": "products_v7",
        "document_ids": [_id(rng) for _ in range(rng.randrange(1, 6))],
        "reason": rng.choice(("price_changed", "stock_changed", "published", "translated")),
    }


def index_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by an update of the search index."""
    return [
        ("INFO", "bulk request", {"index": args.get("index"), "reason": args.get("reason")}),
        ("INFO", "refreshed", {"took": f"{rng.randrange(4, 180)}ms", "errors": False}),
    ]


def fraud_args(rng: Random) -> Args:
    """Return the args of a check for fraud."""
    return {
        "order_id": _id(rng),
        "ip": f"203.0.113.{rng.randrange(1, 255)}",
        "signals": {
            "velocity": round(rng.random(), 3),
            "new_device": rng.random() < 0.3,
            "bin_country": "DE",
        },
    }


def fraud_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a check for fraud."""
    return [
        ("INFO", "scoring order", {"order_id": args.get("order_id"), "model": "gbm-2026-10"}),
        ("WARN", "slow feature store", {"elapsed": f"{rng.randrange(400, 1900)}ms"}),
        ("INFO", "scored", {"score": round(rng.random(), 4)}),
    ]


def fraud_output(rng: Random, args: Mapping[str, object]) -> object:
    """Return what is recorded by a check for fraud."""
    score = Decimal(rng.randrange(10**6)) / 10**6
    verdict = "review" if score > Decimal("0.9") else "pass"
    return {"score": score, "verdict": verdict, "model": "gbm-2026-10"}


def payment_args(rng: Random) -> Args:
    """Return the args of a capture of a payment."""
    return {
        "payment_id": _id(rng),
        "provider": rng.choice(("payfold", "cardinal", "sepa-direct")),
        "amount": {
            "value": _money(rng),
            "currency": "EUR",
            "exchange_rate": Decimal("1.084217350000000001"),
        },
        "order_id": _id(rng),
    }


def payment_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a capture of a payment."""
    return [
        (
            "INFO",
            "capturing payment",
            {"payment_id": args.get("payment_id"), "provider": args.get("provider")},
        ),
        (
            "INFO",
            "provider answered",
            {"status": "succeeded", "network_ms": rng.randrange(150, 2200)},
        ),
    ]


def payment_output(rng: Random, args: Mapping[str, object]) -> object:
    """Return what is recorded by a capture of a payment."""
    amount = args.get("amount")
    return {
        "captured": amount["value"] if isinstance(amount, dict) else None,
        "provider_reference": f"cap_{_hex(rng, 14)}",
        "fee": Decimal(rng.randrange(20, 900)) / 1000,
    }


def renewal_args(rng: Random) -> Args:
    """Return the args of a renewal of a subscription."""
    return {
        "subscription_id": _id(rng),
        "plan": rng.choice(("team-annual", "team-monthly", "business-annual")),
        "seats": rng.randrange(1, 60),
        "price": _money(rng, 9, 4_000),
    }


def renewal_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a renewal of a subscription."""
    return [
        (
            "INFO",
            "renewing",
            {"subscription_id": args.get("subscription_id"), "plan": args.get("plan")},
        ),
        ("INFO", "invoice queued", {"invoice": f"INV-{rng.randrange(10**5, 10**6)}"}),
    ]


def invoice_args(rng: Random) -> Args:
    """Return the args of an invoice."""
    return {
        "invoice": f"INV-{rng.randrange(10**5, 10**6)}",
        "order": _order(rng),
        "vat_rate": Decimal(rng.choice(("0.19", "0.07", "0.081"))),
        "layout": {
            "paper": "A4",
            "logo": "s3://shop-assets/logo@2x.png",
            "columns": ["sku", "qty", "price", "vat"],
        },
    }


def invoice_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by an invoice."""
    return [
        ("INFO", "rendering", {"invoice": args.get("invoice")}),
        ("DEBUG", "embedded fonts", {"fonts": 3}),
        (
            "INFO",
            "uploaded",
            {"pages": rng.randrange(1, 4), "bytes": rng.randrange(40_000, 220_000)},
        ),
    ]


def file_output(rng: Random, args: Mapping[str, object]) -> object:
    """Return what is recorded by a job that writes a file."""
    return {
        "url": f"s3://shop-documents/{_hex(rng, 2)}/{_hex(rng, 16)}.pdf",
        "bytes": rng.randrange(40_000, 9_000_000),
        "sha256": _hex(rng, 64),
    }


def image_args(rng: Random) -> Args:
    """Return the args of an image to scale."""
    return {
        "asset_id": _id(rng),
        "source": f"s3://shop-media/products/{_hex(rng, 10)}.jpg",
        "sizes": [{"width": width, "height": width * 3 // 4} for width in (320, 640, 1280)],
        "format": rng.choice(("webp", "avif")),
        "quality": Decimal("0.82"),
    }


def image_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by an image to scale."""
    width = rng.randrange(2_000, 6_000)
    return [
        ("INFO", f"opened {args.get('source')}", {"pixels": f"{width}x{width * 3 // 4}"}),
        ("INFO", "resized", {"width": 320}),
        ("INFO", "resized", {"width": 640}),
        ("WARNING", "colour profile missing, assuming sRGB", {}),
        ("INFO", "resized", {"width": 1280}),
        ("INFO", "uploaded 3 files", {"format": args.get("format")}),
    ]


def image_output(rng: Random, args: Mapping[str, object]) -> object:
    """Return what is recorded by an image to scale."""
    return {
        "files": [
            {"width": width, "bytes": rng.randrange(9_000, 400_000)} for width in (320, 640, 1280)
        ]
    }


def video_args(rng: Random) -> Args:
    """Return the args of a video to transcode."""
    return {
        "video_id": _id(rng),
        "source": f"s3://shop-media/clips/{_hex(rng, 10)}.mov",
        "renditions": [
            {"name": "1080p", "kbit": 5_200},
            {"name": "720p", "kbit": 2_800},
            {"name": "480p", "kbit": 1_100},
        ],
        "duration_seconds": Decimal(rng.randrange(6_000, 90_000)) / 1000,
    }


def video_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a video to transcode."""
    speed = rng.uniform(0.8, 2.4)
    passes = [
        (
            "INFO",
            f"{name} {percent} %",
            {"fps": round(30 * speed + rng.uniform(-4, 4), 1), "speed": f"{speed:.2f}x"},
        )
        for name in ("1080p", "720p", "480p")
        for percent in range(10, 101, 10)
    ]
    return [
        ("INFO", f"probing {args.get('source')}", {"codec": "prores"}),
        *passes,
        ("INFO", "wrote playlist", {}),
    ]


def report_args(rng: Random) -> Args:
    """Return the args of a report."""
    return {
        "report": rng.choice(("sales_by_region", "vat_summary", "slow_movers", "returns")),
        "range": {"from": "2026-10-01", "to": "2026-10-31"},
        "columns": ["region", "orders", "gross", "net", "vat"],
        "format": rng.choice(("xlsx", "csv")),
        "requested_by": {"user_id": _id(rng), "email": _person(rng)},
    }


def report_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a report."""
    total = rng.randrange(20_000, 400_000)
    steps: list[Line] = [
        ("INFO", "read rows", {"rows": total * part // 10, "of": total}) for part in range(1, 11)
    ]
    return [
        ("INFO", f"building {args.get('report')}", {"format": args.get("format")}),
        *steps,
        ("INFO", "file written", {}),
    ]


def import_args(rng: Random) -> Args:
    """Return the args of an import of products."""
    return {
        "file": f"s3://shop-imports/{_hex(rng, 8)}/products.csv",
        "rows": rng.randrange(2_000, 200_000),
        "mapping": {"Artikel-Nr.": "sku", "Preis (brutto)": "price", "Bestand": "stock"},
        "dry_run": False,
    }


def import_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by an import of products."""
    return [
        ("INFO", f"reading {args.get('file')}", {"rows": args.get("rows")}),
        ("WARNING", "row 1187: price is not a number, skipped", {"value": "12,90 EUR"}),
        ("INFO", "committed batch", {"rows": 5_000}),
        ("INFO", "committed batch", {"rows": 10_000}),
    ]


def cleanup_args(rng: Random) -> Args:
    """Return the args of a clean-up."""
    return {"older_than": "336h", "batch_size": 5_000}


def cleanup_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a clean-up."""
    return [("INFO", "deleted expired sessions", {"count": rng.randrange(200, 5_000)})]


def ledger_args(rng: Random) -> Args:
    """Return the args of a check of the ledger."""
    return {
        "ledger": rng.choice(("EUR-main", "USD-main", "CHF-main")),
        "date": f"2026-11-{rng.randrange(1, 29):02}",
        "expected_total": Decimal(rng.randrange(10**9)) / 10_000,
    }


def ledger_lines(rng: Random, args: Mapping[str, object]) -> list[Line]:
    """Return what is logged by a check of the ledger."""
    return [
        ("INFO", "summing entries", {"ledger": args.get("ledger"), "date": args.get("date")}),
        ("INFO", "balanced", {"difference": "0.0000"}),
    ]


def ledger_output(rng: Random, args: Mapping[str, object]) -> object:
    """Return what is recorded by a check of the ledger."""
    return {
        "entries": rng.randrange(2_000, 90_000),
        "total": args.get("expected_total"),
        "difference": Decimal("0.0000"),
    }
