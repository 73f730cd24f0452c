"""Args and outputs of the demo shop's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

Args = dict[str, Any]

_NAMES = ("mira.okafor", "jonas.weber", "li.na", "søren.dahl", "zoë.martin", "omar.haddad")
_ENDPOINTS = (
    (412, "https://hooks.nordlicht.example/shop"),
    (87, "https://api.bluewhale.example/v2/events?source=shop"),
    (1290, "https://erp.hanse-logistik.example/inbound/orders"),
    (2051, "https://legacy.krone-textil.example:8443/webhook.php"),
)
_EVENTS = ("order.paid", "order.shipped", "order.refunded", "customer.updated", "stock.low")
_TITLES = (
    "Your parcel is on its way",
    "Zurück im Lager: Alpaka-Decke",
    "עגלת הקניות שלך מחכה",
    "50 % auf Sommerschuhe 👟",
)
_TEMPLATES = ("order_confirmed", "order_shipped", "password_reset", "cart_reminder")
_SKUS = ("ALP-BLK-140", "SHOE-42-WHT", "LAMP-BRASS", "MUG-SET-6", "TENT-2P-GRN")
_WIDTHS = (320, 640, 1280)
"""Pixels of the sizes of an image: those of a phone, a tablet and a desktop."""


def _id(rng: Random) -> int:
    """Return an id above 2**53, which viewers that parse JSON numbers as floats show wrongly."""
    return 1_840_021_394_850_918_403 + rng.randrange(10**12)


def _money(rng: Random, low: int = 5, high: int = 900) -> Decimal:
    return Decimal(rng.randrange(low * 100, high * 100)) / 100


def _hex(rng: Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def _order(rng: Random) -> Args:
    return {
        "id": _id(rng),
        "number": f"SO-{rng.randrange(100_000, 999_999)}",
        "total": {"amount": _money(rng), "currency": rng.choice(("EUR", "EUR", "USD", "CHF"))},
    }


def email(rng: Random) -> Args:
    """Return the args of an email."""
    return {
        "template": rng.choice(_TEMPLATES),
        "to": f"{rng.choice(_NAMES)}@mail.example",
        "locale": rng.choice(("de-DE", "en-GB", "fr-FR", "he-IL")),
        "order": _order(rng),
    }


def webhook(rng: Random) -> Args:
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
                {"sku": sku, "quantity": rng.randrange(1, 6), "price": _money(rng, 5, 120)}
                for sku in rng.sample(_SKUS, rng.randrange(1, 4))
            ],
        },
    }


def push(rng: Random) -> Args:
    """Return the args of a push notification."""
    return {
        "title": rng.choice(_TITLES),
        "provider": rng.choice(("apns", "fcm")),
        "device_tokens": [_hex(rng, 32) for _ in range(rng.randrange(1, 3))],
        "collapse_key": f"campaign-{rng.randrange(100, 140)}",
        "user_id": _id(rng),
    }


def index_update(rng: Random) -> Args:
    """Return the args of an update of the search index."""
    return {
        "index": "products_v7",
        "document_ids": [_id(rng) for _ in range(rng.randrange(1, 6))],
        "reason": rng.choice(("price_changed", "stock_changed", "published", "translated")),
    }


def fraud_check(rng: Random) -> Args:
    """Return the args of a check for fraud."""
    return {
        "order_id": _id(rng),
        "ip": f"203.0.113.{rng.randrange(1, 255)}",
        "signals": {"velocity": round(rng.random(), 3), "new_device": rng.random() < 0.3},
    }


def verdict(rng: Random, args: Mapping[str, Any]) -> object:
    """Return the output of a check for fraud."""
    score = Decimal(rng.randrange(10**6)) / 10**6
    return {"score": score, "verdict": "review" if score > Decimal("0.9") else "pass"}


def payment(rng: Random) -> Args:
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


def receipt(rng: Random, args: Mapping[str, Any]) -> object:
    """Return the output of a capture of a payment."""
    return {
        "captured": args.get("amount"),
        "provider_reference": f"cap_{_hex(rng, 14)}",
        "fee": Decimal(rng.randrange(20, 900)) / 1000,
    }


def renewal(rng: Random) -> Args:
    """Return the args of a renewal of a subscription."""
    return {
        "subscription_id": _id(rng),
        "plan": rng.choice(("team-annual", "team-monthly", "business-annual")),
        "seats": rng.randrange(1, 60),
        "price": _money(rng, 9, 4_000),
    }


def image(rng: Random) -> Args:
    """Return the args of an image to scale."""
    return {
        "asset_id": _id(rng),
        "source": f"s3://shop-media/products/{_hex(rng, 10)}.jpg",
        "sizes": [{"width": width, "height": width * 3 // 4} for width in _WIDTHS],
        "format": rng.choice(("webp", "avif")),
        "quality": Decimal("0.82"),
    }


def image_files(rng: Random, args: Mapping[str, Any]) -> object:
    """Return the output of scaling an image."""
    return {
        "files": [{"width": width, "bytes": rng.randrange(9_000, 400_000)} for width in _WIDTHS]
    }


def video(rng: Random) -> Args:
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


def report(rng: Random) -> Args:
    """Return the args of a report."""
    return {
        "report": rng.choice(("sales_by_region", "vat_summary", "slow_movers", "returns")),
        "range": {"from": "2026-10-01", "to": "2026-10-31"},
        "columns": ["region", "orders", "gross", "net", "vat"],
        "format": rng.choice(("xlsx", "csv")),
        "requested_by": {"user_id": _id(rng), "email": f"{rng.choice(_NAMES)}@shop.example"},
    }


def report_file(rng: Random, args: Mapping[str, Any]) -> object:
    """Return the output of a report."""
    return {
        "url": f"s3://shop-documents/{_hex(rng, 16)}.{args.get('format', 'csv')}",
        "bytes": rng.randrange(40_000, 9_000_000),
        "sha256": _hex(rng, 64),
    }


def product_import(rng: Random) -> Args:
    """Return the args of an import of products."""
    return {
        "file": f"s3://shop-imports/{_hex(rng, 8)}/products.csv",
        "rows": rng.randrange(2_000, 200_000),
        "mapping": {"Artikel-Nr.": "sku", "Preis (brutto)": "price", "Bestand": "stock"},
        "dry_run": False,
    }


def cleanup(rng: Random) -> Args:
    """Return the args of a clean-up."""
    return {"older_than": "336h", "batch_size": 5_000}
