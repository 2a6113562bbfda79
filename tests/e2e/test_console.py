"""The console in a real browser: each page on a stack with work in each state, what strangers may not do, and how it is
to use for somebody without scripts, with a keyboard alone, or on a telephone."""

import json
import re
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import expect, sync_playwright

from local import local_stack
from stack import ROOT
from test_browser import CHROMIUM

# What a page shows is waited for: on a busy machine a batch comes to its gate later than in the five seconds of
# Playwright's own.
expect.set_options(timeout=30_000)

EVIL = "<img/src=x/onerror=document.title='hacked'><script>document.title='hacked'</script>"
"""A Target and an id that would run if a page showed it as it is."""

# As many routes as the overview looks at whole: of one more it would leave out some parts, and a batch by chance.
ROUTES = """
version: 1
routes:
  - name: parcels
    when: "type == 'parcel'"
    target: truck
    batch: {{ max_items: 10, wait_ms: 250000, express: false }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/away" }} }}
  - name: labels
    when: "type == 'label'"
    target: printer
    batch: {{ max_items: 2, wait_ms: 0 }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/paused" }} }}
    limits: {{ pause: route, in_flight: 3, calls_per_second: 10 }}
  - name: mails
    when: "type == 'mail'"
    target: box
    batch: {{ max_items: 1, wait_ms: 0 }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/away" }} }}
    limits: {{ pause: route }}
  - name: cards
    when: "type == 'retry' || type == 'card'"
    target: bank
    batch: {{ max_items: 1, wait_ms: 0 }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }}
  - name: drops
    when: "type == 'drop'"
    target: bank
    batch: {{ max_items: 1, wait_ms: 0 }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }}
  - name: accounts
    when: "type == 'account'"
    target: account
    ordered_by: account
    batch: {{ max_items: 1, wait_ms: 0 }}
    downstream: {{ http: {{ url: "http://127.0.0.1:{port}/refused" }} }}
  - name: jobs
    when: "type == 'job'"
    target: machine
    batch: {{ max_items: 5, wait_ms: 0 }}
    downstream: pull
"""


class Downstream(BaseHTTPRequestHandler):
    """Answers by the path: asks for a pause, is away, or refuses for good."""

    ANSWERS = {"/paused": (429, b"later"), "/away": (503, b""), "/refused": (422, b"<b>no such account</b>")}

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.ANSWERS[self.path]
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "600")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextmanager
def served(handler):
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()


def post(local: dict, path: str, body: dict):
    """One call of the HTTP API."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    headers = {"Authorization": f"Bearer {local['GROUPAGE_API_TOKEN']}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{local['GROUPAGE_API_URL']}/{path}", json.dumps(body).encode(), headers)
    opener.open(request).close()


def send(local: dict, *tasks: dict):
    """Sends tasks over the HTTP API."""
    post(local, "tasks", {"tasks": list(tasks)})


def task(name: str, kind: str, **payload) -> dict:
    return {"id": name, "payload": {"type": kind} | payload}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """A stack with work in each state: a window that is open, a paused route, failed tasks, a Target with far more to
    do than the others, a message that was rejected, and names full of markup."""
    folder = tmp_path_factory.mktemp("console")
    with served(Downstream) as port, local_stack(folder, ROUTES.format(port=port)) as environment:
        send(environment, *[task(f"parcel-{n}", "parcel", truck="truck-7") for n in range(4)])
        send(environment, *[task(f"label-{n}", "label", printer="printer-1") for n in range(2)])
        send(environment, *[task(f"mail-{n}", "mail", box=f"box-{n}") for n in range(6)])
        send(environment, *[task(f"card-{n}", "card", bank="bank-1") for n in range(3)])
        send(environment, *[task(f"job-{n}", "job", machine="hot") for n in range(30)])
        send(environment, task("evil<b>1</b>", "job", machine=EVIL), task("lost", "nothing"))
        send(environment, *[task(f"again-{n}", "retry", bank="bank-1") for n in range(4)])
        send(environment, *[task(f"drop-{n}", "drop", bank="bank-1") for n in range(3)])
        send(environment, *[task(f"account-{n}", "account", account="a-1") for n in range(3)])
        send(environment, *[task(f"later-{n}", "job", machine="later") | {"list": "later"} for n in range(3)])
        post(environment, "trackers", {"id": "catalog"})
        post(environment, "trackers/catalog/items", {"key": "first", "count": 10})
        post(environment, "trackers/catalog/acks", {"succeeded": ["catalog:0:0-3"]})
        post(environment, "streams", {"id": "orders"})
        event = {"offset": "o-1", "task": task("order-1", "job", machine="orders")}
        post(environment, "streams/orders/events", {"from": 0, "events": [event]})
        yield environment


@pytest.fixture(scope="module")
def browser():
    assert CHROMIUM, "the tests need Chromium: install Debian's package chromium"
    arguments = [
        "--no-sandbox", "--no-proxy-server", "--host-resolver-rules=MAP *.example 127.0.0.1",
        "--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebRTC,BlockInsecurePrivateNetworkRequests",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def let_in(browser, local: dict, **options):
    """A page of somebody who opened the link; nothing that it says to its developers may be an error."""
    context = browser.new_context(**options)
    page, said = context.new_page(), []
    # That nothing has an id is an answer, and so is that a form is refused.
    page.on("console", lambda message: said.append(message.text)
            if message.type in ("error", "warning") and not re.search(r"\?id=|/act$", message.location["url"]) else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(local["GROUPAGE_CONSOLE_URL"])
    yield page
    assert not said, said
    context.close()


@pytest.fixture
def page(browser, local):
    with let_in(browser, local) as page:
        yield page


def at(local: dict, path: str) -> str:
    return f"{local['GROUPAGE_API_URL']}/console/{path}"


def pages(local: dict, page) -> dict[str, str]:
    """The address of each page, by what it is."""
    page.goto(at(local, "task?id=label-0"))
    batch = page.locator("dl").get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).inner_text()
    return {
        "overview": at(local, "overview"),
        "targets": at(local, "targets"),
        "targets of a route": at(local, "targets?route=jobs"),
        "target": at(local, f"target?id={quote('parcels:truck-7')}"),
        "batch": at(local, f"batch?id={batch}"),
        "task": at(local, "task?id=card-0"),
        "routes": at(local, "routes"),
        "failed": at(local, "failed"),
        "failed of a route": at(local, "failed?route=cards"),
        "dead letters": at(local, "dead-letters?queue=rejected"),
        "trackers": at(local, "trackers"),
        "tracker": at(local, "tracker?id=catalog"),
        "held": at(local, "held"),
        "list": at(local, "list?id=later"),
        "order key": at(local, "lane?route=accounts&id=a-1"),
        "stream": at(local, "stream?id=orders"),
        "search": at(local, "search?id=nothing-has-this"),
    }


def test_the_documentation_shows_each_page_by_a_small_picture():
    guide = (ROOT / "docs/guides/console-pages.md").read_text()
    pictures = sorted((ROOT / "docs/images").glob("console-*.png"))
    kinds = re.findall(r'Self::\w+ => "([a-z-]+)",', (ROOT / "console/src/view.rs").read_text())
    shown = {picture.stem.removeprefix("console-") for picture in pictures}
    assert len(kinds) == 15 and shown == {"order-key" if kind == "lane" else kind for kind in kinds}
    for picture in pictures:
        assert picture.stat().st_size <= 60_000 and f"../images/{picture.name}" in guide, picture.name


def test_the_link_lets_a_browser_in_and_does_not_stay_in_its_address(browser, local):
    with let_in(browser, local) as page:
        assert page.url == at(local, "overview")
        [cookie] = page.context.cookies()
        assert cookie["httpOnly"] and cookie["sameSite"] == "Strict" and cookie["path"] == "/console"
        key = local["GROUPAGE_API_TOKEN"]
        assert key not in local["GROUPAGE_CONSOLE_URL"] and key not in cookie["value"], "the stack's key is not given away"
        assert cookie["value"] not in local["GROUPAGE_CONSOLE_URL"] and cookie["value"] not in page.content()
    stranger = browser.new_page()
    for address in [at(local, "overview"), at(local, "live/overview"), at(local, "console.js"),
                    f"{local['GROUPAGE_API_URL']}/console?key={key}"]:
        assert stranger.goto(address).status == 401, address
    stranger.close()


def test_a_page_of_another_origin_gets_nowhere(browser, local, report):
    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            address = at(local, "overview")
            self.wfile.write(f"<!doctype html><a href='{address}'>go</a><iframe src='{address}'></iframe>".encode())

        def log_message(self, *_):
            pass

    with served(Foreign) as port, let_in(browser, local) as page:
        own = page.context
        for name in ["evil.example", "127.0.0.1", "localhost"]:
            foreign = own.new_page()
            answered = []
            foreign.on("response", lambda response: answered.append(response.status) if "/console" in response.url else None)
            foreign.goto(f"http://{name}:{port}/")
            fetched = foreign.evaluate(
                """address => fetch(address, {credentials: "include"}).then(() => "read", () => "kept away")""",
                at(local, "overview"),
            )
            assert fetched == "kept away", name
            foreign.get_by_role("link").click()
            expect(foreign.locator("body")).to_contain_text("another origin")
            # The browser does not always tell of an answer that it keeps from the page.
            assert len(answered) >= 2 and set(answered) == {403}, (name, answered)
            foreign.close()
    report.append("console: a frame, a request and a link of three foreign origins were refused, with the cookie at hand")


def test_the_overview_alone_says_which_target_waits_for_what(page, local):
    """One paused route, one open breaker, one hot Target, a window that is open, failed and rejected tasks: read by its
    text."""
    needs = page.locator(".needs")
    expect(needs).to_contain_text("route labels: paused")
    expect(needs).to_contain_text(re.compile("route mails: the downstream is away since .*: http_503; next probe"))
    expect(needs).to_contain_text("1 messages ended in rejected")
    rows = page.get_by_role("region", name="What waits, and why").locator("tbody tr")
    hot = rows.filter(has_text="jobs:hot")
    expect(hot).to_contain_text("a worker that pulls")
    expect(rows.first).to_contain_text("jobs:hot")
    expect(rows.filter(has_text="parcels:truck-7")).to_contain_text(re.compile("more tasks: its batch's window is open for"))
    expect(rows.filter(has_text="parcels:truck-7")).to_contain_text("4 tasks")
    expect(rows.filter(has_text="labels:printer-1")).to_contain_text(re.compile("the end of a pause of its route, in ([4-9]|10) min"))
    boxes = rows.filter(has_text="mails:box-")
    away = re.compile(r"the downstream of its route to be back: away since .* ago \(http_503\), next probe")
    expect(boxes.first).to_contain_text(away)
    expect(page.get_by_role("region", name="Routes").locator("tr", has_text="labels")).to_contain_text("10 calls a second")
    expect(page.locator("dl div", has_text="tasks in").first).to_contain_text(re.compile("[0-9]"))


def test_a_target_a_batch_and_a_task_lead_to_each_other(page, local):
    page.get_by_role("link", name="parcels:truck-7").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Target parcels:truck-7")
    expect(page.locator("dl")).to_contain_text("open: it is filling up")
    expect(page.locator("dl")).to_contain_text("4 of 10")
    page.locator("dl").get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Batch")
    expect(page.locator("dl")).to_contain_text("its batch's window is open for")
    page.get_by_role("link", name="parcel-2").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Task parcel-2")
    expect(page.locator("dl")).to_contain_text("in a batch")
    expect(page.locator(".timeline")).to_contain_text("registered")


def test_a_failed_task_says_why_and_what_the_downstream_said_as_text(page, local):
    page.goto(at(local, "task?id=card-1"))
    facts = page.locator("dl")
    expect(facts).to_contain_text("failed")
    expect(facts).to_contain_text("http_422")
    expect(facts).to_contain_text("<b>no such account</b>")
    expect(page.locator(".timeline")).to_contain_text("failed after 1 call of the batch")


def test_search_finds_whatever_has_the_id(page, local):
    page.goto(at(local, "task?id=label-0"))
    batch = page.locator("dl").get_by_role("link", name=re.compile("^[0-9a-f]{32}$")).inner_text()
    for text, heading in [("parcel-1", "Task parcel-1"), ("jobs:hot", "Target jobs:hot"), (f"  {batch} ", f"Batch {batch}")]:
        page.get_by_label("Any id").fill(text)
        page.get_by_role("button", name="Find").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    page.get_by_label("Any id").fill("nothing-has-this")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("Nothing is known of nothing-has-this")


def test_an_id_or_target_full_of_markup_is_text(page, local):
    page.goto(at(local, "targets?route=jobs"))
    link = page.get_by_role("link", name=f"jobs:{EVIL}")
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Target jobs:{EVIL}")
    page.goto(at(local, f"task?id={quote('evil<b>1</b>')}"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Task evil<b>1</b>")
    for address in [at(local, f"target?id={quote(EVIL)}"), at(local, f"search?id={quote(EVIL)}"), at(local, f"task?id={quote(EVIL)}")]:
        page.goto(address)
        expect(page.locator("main")).to_contain_text("<script>")
        assert page.locator("main img, main script, main b").count() == 0
        assert "hacked" not in page.title().split("<")[0]


def test_a_page_shows_what_has_changed_without_being_asked_again(page, local):
    page.goto(at(local, "targets?route=parcels"))
    expect(page.locator("#state")).to_have_text("Live.")
    expect(page.get_by_role("link", name="parcels:truck-late")).to_have_count(0)
    send(local, task("late-1", "parcel", truck="truck-late"))
    expect(page.get_by_role("link", name="parcels:truck-late")).to_be_visible(timeout=30_000)


def test_everything_can_be_read_without_scripts(browser, local):
    with let_in(browser, local) as page:
        addresses = pages(local, page)
    with let_in(browser, local, java_script_enabled=False) as page:
        for name, address in addresses.items():
            page.goto(address)
            assert len(page.locator("main").inner_text()) > 50, name
            assert "reload the page" in page.content()


def test_a_route_says_what_it_does_and_when_it_was_pushed(page, local):
    page.goto(at(local, "routes"))
    expect(page.locator("main")).to_contain_text(re.compile("Version 1, pushed"))
    versions = page.get_by_role("region", name="Versions").locator("tbody tr")
    expect(versions).to_have_count(1)
    expect(versions).to_contain_text("@")
    facts = page.locator("h2:has-text('labels') + p + dl")
    expect(facts).to_contain_text("/paused")
    expect(facts).to_contain_text("5 calls, with pauses of at most 1 s, 2 s, 4 s, 8 s")
    expect(facts).to_contain_text(re.compile("paused, ends in ([4-9]|10) min"))


def test_chosen_tasks_are_shown_confirmed_and_run_again_each_with_a_result(page, local):
    page.goto(at(local, "failed?route=cards"))
    for name in ("again-1", "again-2"):
        page.get_by_label(f"Choose {name}").check()
    page.get_by_role("button", name="Retry the chosen").click()
    expect(page.locator("main")).to_contain_text("This will run these failed tasks again.")
    touched = page.get_by_role("region", name="What it touches")
    expect(touched).to_contain_text("again-1")
    expect(touched).not_to_contain_text("again-3")
    page.get_by_role("button", name="Yes, 2 of them").click()
    expect(page.get_by_role("status")).to_have_text("2 failed tasks run again.")
    expect(page.locator("tr", has_text="again-2")).to_contain_text("runs again")
    # Its second round: the downstream refuses it again.
    page.goto(at(local, "task?id=again-2"))
    expect(page.locator(".timeline")).to_contain_text("waits again, in round 1")


def test_one_task_is_run_again_from_its_own_page_without_a_second_question(page, local):
    page.goto(at(local, "task?id=again-0"))
    page.get_by_role("button", name="Run it again").click()
    expect(page.get_by_role("status")).to_have_text("1 failed tasks run again.")
    page.goto(at(local, "task?id=parcel-0"))
    expect(page.get_by_role("button", name="Run it again")).to_have_count(0)


def test_all_tasks_of_a_reason_are_dropped_once_that_is_confirmed(page, local):
    page.goto(at(local, "failed?route=drops"))
    row = page.get_by_role("region", name="By reason").locator("tr", has_text="http_422")
    expect(row).to_contain_text("3")
    row.get_by_role("button", name="Drop all").click()
    expect(page.get_by_role("region", name="What it touches").locator("tbody tr")).to_have_count(3)
    page.goto(at(local, "failed?route=drops"))
    expect(row).to_contain_text("3")
    row.get_by_role("button", name="Drop all").click()
    page.get_by_role("button", name="Yes, 3 of them").click()
    expect(page.get_by_role("status")).to_have_text("3 failed tasks are taken off the list.")
    page.goto(at(local, "failed?route=drops"))
    expect(page.locator("main")).to_contain_text("No failed task is listed.")


def test_a_form_without_the_consoles_secret_does_nothing(page, local):
    page.goto(at(local, "failed?route=cards"))
    status = page.evaluate("""() => fetch("/console/act", {
        method: "POST", body: new URLSearchParams({act: "drop", id: "card-0", form: "guess"})}).then((answer) => answer.status)""")
    assert status == 403
    page.reload()
    expect(page.get_by_label("Choose card-0")).to_be_visible()


def test_a_program_of_another_port_that_gets_the_cookie_reads_and_does_not_act(page, local):
    """Browsers send the cookie to each port of the host; what else they send, such a program may say, too."""
    [cookie] = page.context.cookies()
    assert 0 < cookie["expires"] - time.time() <= 86_400
    headers = {"Cookie": f"{cookie['name']}={cookie['value']}", "Origin": local["GROUPAGE_API_URL"]}
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(urllib.request.Request(at(local, "failed?route=cards"), headers=headers)) as answer:
        secrets = set(re.findall('name="form" value="([^"]*)"', answer.read().decode()))
    assert secrets == {""}
    with pytest.raises(urllib.error.HTTPError, match="403"):
        opener.open(urllib.request.Request(at(local, "act"), b"act=drop&id=card-0&form=", headers))


def test_a_rejected_message_is_named_by_its_task_and_sent_again(page, local):
    page.goto(at(local, "dead-letters?queue=rejected"))
    row = page.get_by_role("region", name="Messages in rejected").locator("tr", has_text="lost")
    expect(row).to_contain_text("no_route")
    queues = page.get_by_role("region", name="Queues").locator("tr", has_text="rejected")
    queues.get_by_role("button", name="Send all again").click()
    expect(page.get_by_role("status")).to_have_text("1 messages are sent again.")


def test_a_rejected_message_is_deleted_once_that_is_confirmed_though_it_is_one(page, local):
    send(local, task("fax", "nothing"))
    row = page.get_by_role("region", name="Messages in rejected").locator("tr", has_text="fax")
    while row.count() == 0:
        page.goto(at(local, "dead-letters?queue=rejected"))
    row.get_by_role("button", name="Delete it").click()
    expect(page.locator("main")).to_contain_text(re.compile("This will delete the message .* from rejected, for ever."))
    page.get_by_role("button", name="Yes, 1 of them").click()
    expect(page.get_by_role("status")).to_have_text("1 messages are deleted.")


def test_a_tracker_and_a_stream_say_how_far_they_are(page, local):
    page.goto(at(local, "trackers"))
    page.get_by_role("link", name="catalog").click()
    facts = page.locator("dl")
    expect(facts).to_contain_text("4 of 10")
    expect(facts).to_contain_text("items a second")
    expect(facts).to_contain_text("time left at that rate")
    page.goto(at(local, "stream?id=orders"))
    expect(facts).to_contain_text("1 of at most")
    page.get_by_role("button", name="Commit what is settled").click()
    expect(page.locator("main")).to_contain_text("its watermark is 0")


def test_a_button_works_as_soon_as_it_can_be_pressed(page, local):
    """Though the page's script comes late."""
    page.goto(at(local, "held"))
    page.get_by_role("link", name="later", exact=True).click()
    expect(page.get_by_role("region", name="Next").locator("tbody tr")).to_have_count(3)
    page.route("**/console.js", lambda route: (page.wait_for_timeout(2000), route.continue_()))
    page.reload(wait_until="commit")
    page.get_by_label("Release the next").fill("2")
    page.get_by_role("button", name="Release").click()
    expect(page.locator("main")).to_contain_text("release the next 2 of 3 tasks")


def test_tasks_of_a_list_are_released_once_however_often_that_is_confirmed(page, local):
    page.goto(at(local, "held"))
    page.get_by_role("link", name="later", exact=True).click()
    expect(page.get_by_role("region", name="Next").locator("tbody tr")).to_have_count(3)
    page.get_by_label("Release the next").fill("2")
    page.get_by_role("button", name="Release").click()
    expect(page.locator("main")).to_contain_text("release the next 2 of 3 tasks")
    form = page.evaluate("""String(new URLSearchParams(new FormData(document.querySelector("main form"))))""")
    page.get_by_role("button", name="Yes, 2 of them").click()
    expect(page.get_by_role("status")).to_have_text("2 tasks are released.")
    again = page.evaluate("""(form) => fetch("/console/act", {
        method: "POST", body: new URLSearchParams(form)}).then((answer) => answer.text())""", form)
    assert "by the same act" in again
    page.goto(at(local, "list?id=later"))
    expect(page.locator("dl div", has_text="waiting")).to_contain_text("1")


def test_calls_are_held_back_and_let_go_on(page, local):
    page.goto(at(local, "target?id=jobs:hot"))
    page.get_by_label("Why").fill("<b>deploy</b>")
    page.get_by_role("button", name="Hold calls back").click()
    expect(page.locator("main")).to_contain_text("stands as held")
    page.goto(at(local, "overview"))
    expect(page.locator(".needs")).to_contain_text("Target jobs:hot: held by a person")
    page.goto(at(local, "target?id=jobs:hot"))
    gates = page.get_by_role("region", name="Gates before its calls")
    expect(gates).to_contain_text(re.compile("held by a person since .*: <b>deploy</b>"))
    page.get_by_role("button", name="Let calls go on").click()
    page.goto(at(local, "target?id=jobs:hot"))
    expect(gates).not_to_contain_text("held by a person")


def test_a_task_that_waits_for_its_turn_is_cancelled_from_its_own_page(page, local):
    page.goto(at(local, "task?id=account-2"))
    page.get_by_role("button", name="Cancel it").click()
    expect(page.get_by_role("status")).to_have_text("1 tasks are cancelled.")
    page.goto(at(local, "task?id=account-2"))
    expect(page.locator("dl")).to_contain_text("cancelled")
    expect(page.get_by_role("button", name="Cancel it")).to_have_count(0)
    page.goto(at(local, "task?id=card-0"))
    expect(page.get_by_role("button", name="Cancel it")).to_have_count(0)


def test_a_stopped_order_key_goes_on(page, local):
    page.goto(at(local, "task?id=account-1"))
    expect(page.locator("dl")).to_contain_text("its turn: a task before it in its lane is not settled")
    page.goto(at(local, "held"))
    page.get_by_role("link", name="a-1").click()
    expect(page.locator("dl")).to_contain_text("held: a task failed")
    expect(page.get_by_role("region", name="Behind it")).to_contain_text("account-1")
    page.get_by_role("button", name="Go on without the failed task").click()
    expect(page.locator("main")).to_contain_text("goes on without account-0")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_is_for_everybody_in_the_dark_and_on_a_telephone(browser, local, scheme):
    with let_in(browser, local, color_scheme=scheme, viewport={"width": 360, "height": 740}) as page:
        for name, address in pages(local, page).items():
            page.goto(address)
            width = page.evaluate("document.documentElement.scrollWidth")
            assert width <= 360, f"{name} is {width} pixels wide"
            assert page.evaluate(BARRIERS) == [], name


def test_the_keyboard_alone_leads_through_a_page(page, local):
    page.goto(at(local, "overview"))
    page.keyboard.press("Tab")
    expect(page.get_by_text("To the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    # To the end of the content: how many links come before a Target's depends on what else waits by now.
    seen = []
    for _ in range(500):
        page.keyboard.press("Tab")
        if not page.evaluate("document.querySelector('main').contains(document.activeElement)"):
            break
        seen.append(page.evaluate("document.activeElement.textContent.slice(0, 40) || document.activeElement.tagName"))
    assert len(seen) < 500, seen
    assert any("jobs:hot" in text for text in seen), seen


BARRIERS = """() => {
    const found = [], all = (selector) => [...document.querySelectorAll(selector)];
    const named = (element) => (element.getAttribute("aria-label") || element.textContent || "").trim();
    if (!document.documentElement.lang) found.push("no language");
    if (!document.title) found.push("no title");
    if (all("h1").length !== 1) found.push("not one h1");
    if (all("main").length !== 1 || all("header").length !== 1 || all("footer").length !== 1) found.push("landmarks");
    let level = 0;
    for (const heading of all("main h1, main h2, main h3")) {
        const next = Number(heading.tagName[1]);
        if (next > level + 1) found.push(`heading ${named(heading)} skips a level`);
        level = next;
    }
    for (const element of all("a[href], button, [role=region], nav, svg, progress"))
        if (!named(element)) found.push(`${element.outerHTML.slice(0, 80)} has no name`);
    for (const field of all("input:not([type=hidden]), select, textarea"))
        if (!field.labels?.length && !field.getAttribute("aria-label")) found.push(`field ${field.name} has no label`);
    for (const cell of all("th")) if (!cell.scope) found.push("a header of no column or row");
    const ids = all("[id]").map((element) => element.id);
    if (new Set(ids).size !== ids.length) found.push("an id twice");
    for (const region of all(".scroll"))
        if (region.tabIndex !== 0) found.push("a region that the keyboard cannot scroll");
    const channels = (color) => color.match(/[0-9.]+/g).map(Number);
    const light = (color) => {
        const [r, g, b] = channels(color).map((one) => one / 255).map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (element) => {
        for (let at = element; at; at = at.parentElement) {
            const color = getComputedStyle(at).backgroundColor, parts = channels(color);
            if (parts.length < 4 || parts[3] > 0) return color;
        }
        return "rgb(255, 255, 255)";
    };
    for (const element of all("body *")) {
        const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        if (!own || element.closest("svg") || !element.checkVisibility() || element.disabled) continue;
        const [a, b] = [light(getComputedStyle(element).color), light(ground(element))].sort((x, y) => y - x);
        if ((a + 0.05) / (b + 0.05) < 4.5) found.push(`${element.tagName} "${named(element).slice(0, 30)}" has too little contrast`);
    }
    return [...new Set(found)];
}"""
"""What keeps people out, as axe would find it: names, labels, headings, landmarks, keyboard, contrast."""


def test_a_link_that_is_pressed_stays_until_it_is_clicked(page, local):
    """Though what the page shows changes meanwhile, and is shown then."""
    page.goto(at(local, "targets?route=jobs"))
    expect(page.locator("#state")).to_have_text("Live.")
    page.get_by_role("link", name="jobs:hot").hover()
    page.mouse.down()
    page.evaluate("window.pressed = document.querySelector('#live table')")
    assert page.evaluate(CHANGES), "the page does not change"
    assert page.evaluate("window.pressed.isConnected"), "it was replaced"
    page.mouse.up()
    expect(page.get_by_role("heading", level=1)).to_have_text("Target jobs:hot")
    page.goto(at(local, "targets?route=jobs"))
    page.get_by_role("heading", level=1).click()
    page.evaluate("window.pressed = document.querySelector('#live table')")
    assert page.evaluate(CHANGES), "the page does not change"
    assert not page.evaluate("window.pressed.isConnected"), "what came is not shown after the click"


CHANGES = """() => new Promise((done) => {
    const events = new EventSource(document.getElementById("live").dataset.updates);
    const seen = new Set();
    const end = (changed) => { events.close(); done(changed); };
    events.onmessage = (event) => { if (seen.add(event.data).size === 4) end(true); };
    setTimeout(end, 60000, false);
})"""
"""Waits until the page is made anew some times, and says whether it was: it tells how many milliseconds it took."""
