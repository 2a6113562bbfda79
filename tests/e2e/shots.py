"""Pictures of the console's pages: `python tests/e2e/shots.py` makes docs/images anew.

It runs with the Python of `target/tools/stack`. A stack of its own has work in each state. The pictures have few
colours, so that they stay small."""

import re
import struct
import tempfile
import time
import zlib
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, sync_playwright

from local import local_stack
from stack import ROOT
from test_browser import CHROMIUM
from test_console import Downstream as PausesAndRefuses
from test_console import at, let_in, post, send, served, task

FOLDER = ROOT / "docs/images"
SIZE = {"width": 1000, "height": 640}

ROUTES = """
version: 1
routes:
  - {{ name: parcels, when: "type == 'parcel'", target: truck, batch: {{ max_items: 100, wait_ms: 250000, express: false }}, downstream: pull }}
  - {{ name: labels, when: "type == 'label'", target: printer, batch: {{ max_items: 20, wait_ms: 0 }}, downstream: {{ http: {{ url: "http://127.0.0.1:{port}/paused" }} }}, limits: {{ pause: route, in_flight: 3, calls_per_second: 10 }} }}
  - {{ name: mails, when: "type == 'mail'", target: domain, batch: {{ max_items: 1, wait_ms: 0 }}, downstream: {{ http: {{ url: "http://127.0.0.1:{port}/away" }} }}, limits: {{ pause: route }} }}
  - {{ name: cards, when: "type == 'card'", target: bank, batch: {{ max_items: 5, wait_ms: 0 }}, downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }} }}
  - {{ name: accounts, when: "type == 'account'", target: account, ordered_by: account, batch: {{ max_items: 1, wait_ms: 0 }}, downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }} }}
  - {{ name: jobs, when: "type == 'job'", target: machine, batch: {{ max_items: 50, wait_ms: 0 }}, downstream: pull }}
"""


class Downstream(PausesAndRefuses):
    """Asks for a pause, is away, or refuses for good."""

    ANSWERS = {
        "/paused": (429, b"later"),
        "/away": (503, b"be right back"),
        "/refused": (422, b'{"error": "no such account"}'),
    }


def fill(local: dict):
    """Work in each state."""
    for truck, count in [(7, 42), (12, 8), (3, 2)]:
        send(local, *[task(f"parcel-{truck}-{n}", "parcel", truck=f"truck-{truck}") for n in range(count)])
    send(local, *[task(f"label-{n}", "label", printer="printer-1") for n in range(12)])
    send(local, *[task(f"mail-{n}", "mail", domain=f"mail-{n % 3}.example") for n in range(9)])
    send(local, *[task(f"card-{n}", "card", bank=f"bank-{n % 2}") for n in range(15)])
    for _ in range(3):
        send(local, *[task(f"job-{time.monotonic_ns()}-{n}", "job", machine="press-1") for n in range(100)])
    send(local, *[task(f"transfer-{n}", "account", account="4711") for n in range(4)])
    send(local, *[{"id": f"offer-{n}", "payload": {"type": "job", "machine": "press-2"}, "list": "autumn"} for n in range(6)])
    send(local, task("letter-1", "letter"), task("letter-2", "letter"))
    post(local, "trackers", {"id": "catalog-7"})
    post(local, "trackers/catalog-7/items", {"key": "first", "count": 1000})
    post(local, "trackers/catalog-7/acks", {"succeeded": ["catalog-7:0:0-639"], "failed": ["catalog-7:0:640-643"]})
    post(local, "streams", {"id": "orders"})
    events = [{"offset": f"o-{n}", "task": task(f"order-{n}", "job", machine="press-3")} for n in range(25)]
    post(local, "streams/orders/events", {"from": 0, "events": events})


def pages(local: dict, page: Page) -> dict[str, str]:
    """The path of each page, by the name of its picture."""
    page.goto(at(local, "task?id=label-0"))
    batch = page.locator("dl").get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).inner_text()
    return {
        "overview": "overview", "routes": "routes", "targets": "targets", "target": f"target?id={quote('parcels:truck-7')}",
        "batch": f"batch?id={batch}", "task": "task?id=card-0", "failed": "failed", "dead-letters": "dead-letters?queue=rejected",
        "trackers": "trackers", "tracker": "tracker?id=catalog-7", "held": "held", "list": "list?id=autumn",
        "order-key": "lane?route=accounts&id=4711", "stream": "stream?id=orders", "search": "search?id=parcel-99",
    }


def few_colours(png: bytes) -> bytes:
    """The same picture with 6 shades of each colour, as a palette: a third of the size."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at_byte, data, header = 8, b"", b""
    while at_byte < len(png):
        length, kind = struct.unpack(">I4s", png[at_byte:at_byte + 8])
        body = png[at_byte + 8:at_byte + 8 + length]
        header, data = (body if kind == b"IHDR" else header), (data + body if kind == b"IDAT" else data)
        at_byte += 12 + length
    width, height, depth, colour = struct.unpack(">IIBB", header[:10])
    assert depth == 8 and colour in (2, 6), "24 bits, with or without transparency"
    step = 3 if colour == 2 else 4
    raw, before, rows = zlib.decompress(data), bytearray(width * step), []
    for row in range(height):
        start = row * (width * step + 1)
        how, line = raw[start], bytearray(raw[start + 1:start + 1 + width * step])
        for n in range(len(line)):
            left = line[n - step] if n >= step else 0
            up, corner = before[n], before[n - step] if n >= step else 0
            if how == 1:
                line[n] = line[n] + left & 255
            elif how == 2:
                line[n] = line[n] + up & 255
            elif how == 3:
                line[n] = line[n] + (left + up) // 2 & 255
            elif how == 4:
                guess = left + up - corner
                best = min((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner))[2]
                line[n] = line[n] + best & 255
        rows.append(bytes(shade(*line[n:n + 3]) for n in range(0, len(line), step)))
        before = line
    palette = b"".join(bytes((r * 51, g * 51, b * 51)) for r in range(6) for g in range(6) for b in range(6))
    packed = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return png[:8] + b"".join(chunk(*one) for one in [(b"IHDR", head), (b"PLTE", palette), (b"IDAT", packed), (b"IEND", b"")])


def shade(red: int, green: int, blue: int) -> int:
    """The nearest colour of the palette."""
    return (red + 25) // 51 * 36 + (green + 25) // 51 * 6 + (blue + 25) // 51


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def main():
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, served(Downstream) as port, sync_playwright() as playwright, \
            local_stack(Path(folder), ROUTES.format(port=port)) as local:
        fill(local)
        time.sleep(8)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-lcd-text"])
        with let_in(browser, local, viewport=SIZE) as page:
            for name, path in pages(local, page).items():
                page.goto(at(local, path))
                (FOLDER / f"console-{name}.png").write_bytes(few_colours(page.screenshot()))
        browser.close()


if __name__ == "__main__":
    main()
