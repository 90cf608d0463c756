#!/usr/bin/env python3
"""Checks the page of a running daemon in a headless Chromium, with real uploads behind it.

    scripts/as-root .cache/venv/bin/python scripts/page.py [--seconds 90] [--pictures]
        [--binaries target/release]

Six groups of addresses lie behind one link; three of them lose packets. The cgroup and the folder
of the state have hostile names. The page must load, sort, filter, and tell a path's story, by mouse
and keyboard; axe must find nothing in light and dark; a narrow screen must not scroll sideways; and
a dead daemon must show. `--pictures` renews docs/use/page.png and docs/use/page-phone.png. Needs
root and chromium; makes two network namespaces and a cgroup, and removes them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright
from scrape import PORT, ROOT, cgroup, namespaces, process, until
from screens import BYTES, CONFIG, PEERS, link

DOCS = ROOT / "docs" / "use"
LISTEN = 9464
# Without a slash, so that a folder may have this name.
HOSTILE = "<img src=x onerror=document.title='run'>\"'&"
WIDE, PHONE = {"width": 1180, "height": 900}, {"width": 360, "height": 740}
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=90)
    parser.add_argument("--binaries", type=Path, default=ROOT / "target/release")
    parser.add_argument("--pictures", action="store_true", help="renew those of the manual")
    parser.add_argument("--look", type=Path, help="put screenshots of all states here")
    options = parser.parse_args()
    binaries = options.binaries.resolve()
    name = f"tp{os.getpid()}"
    # A picture in the manual shows the names of an ordinary host.
    hostile = "" if options.pictures else HOSTILE
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=name)))
        near, far = stack.enter_context(namespaces(name))
        group = stack.enter_context(cgroup(name + hostile))
        link(stack, binaries, folder, near, far)
        daemon = start(stack, binaries, folder, near, group, hostile)
        upload(stack, binaries, near, group)
        time.sleep(options.seconds)
        with chromium(folder, near) as browser:
            if options.look:
                look(browser, options.look)
            if options.pictures:
                photograph(browser)
            else:
                check(browser, daemon, near, far)
    print("page: all is well")


def start(
    stack: ExitStack, binaries: Path, folder: Path, near: str, group: Path, hostile: str
) -> subprocess.Popen:
    (folder / "tcpilot.toml").write_text(CONFIG)
    state = folder / ("state" + hostile)
    state.mkdir()
    words = [
        "nsenter",
        f"--net=/run/netns/{near}",
        f"{binaries}/tcpilot",
        "run",
        "--page",
    ]
    words += [
        "--listen",
        f"0.0.0.0:{LISTEN}",
        "--cgroup",
        group,
        "--state",
        state / "state.db",
    ]
    words += ["--config", folder / "tcpilot.toml", "--socket", folder / "sock"]
    daemon = stack.enter_context(process(words, stderr=subprocess.DEVNULL))
    until("the daemon answers", lambda: (folder / "sock").exists())
    trial = [
        f"{binaries}/tcpilot",
        "report",
        "--trial",
        "1h",
        "--socket",
        folder / "sock",
    ]
    subprocess.run(trial, check=True)
    return daemon


def upload(stack: ExitStack, binaries: Path, near: str, group: Path) -> None:
    for address, _, _ in PEERS:
        words = f"ip netns exec {near} {binaries}/flowgen bulk --to {address}:{PORT}"
        words += f" --bytes {BYTES} --count 1000000 --gap-ms 50"
        enter = ["sh", "-c", f'echo $$ >"$0"; exec {words}', group / "cgroup.procs"]
        stack.enter_context(process(enter, stdout=subprocess.DEVNULL))


@contextlib.contextmanager
def chromium(folder: Path, near: str) -> Iterator[Browser]:
    """A browser in the daemon's namespace, whose loopback it needs."""
    program = shutil.which("chromium") or sys.exit("page: apt-get install chromium")
    wrapper = folder / "chromium"
    wrapper.write_text(f'#!/bin/sh\nexec nsenter --net=/run/netns/{near} {program} "$@"\n')
    wrapper.chmod(0o755)
    with sync_playwright() as driver:
        # Root could not start its sandbox.
        browser = driver.chromium.launch(executable_path=wrapper, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def window(browser: Browser, size: dict[str, int] = WIDE, **more: Any) -> Iterator[Page]:
    """The page. Errors of its script, and requests to others than the daemon, fail the check."""
    context = browser.new_context(viewport=size, **more)
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    own = f"http://127.0.0.1:{LISTEN}/"
    page.on(
        "console",
        lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None,
    )
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(own) else wrong.append(r.url))
    page.goto(own)
    expect(page.locator("#state")).to_have_text("live")
    expect(page.locator("#paths tbody tr")).to_have_count(len(PEERS))
    expect(page.locator("#effect svg, #effect p").first).to_be_visible()
    yield page
    # A busy daemon refuses a story, and a dead one refuses connections; Chromium reports both.
    known = ("503", "ERR_CONNECTION_REFUSED")
    assert [text for text in wrong if not any(one in text for one in known)] == [], wrong
    context.close()


def look(browser: Browser, to: Path) -> None:
    """Screenshots of the page and of a story, wide and narrow, light and dark."""
    to.mkdir(exist_ok=True)
    for scheme in ("light", "dark"):
        for word, size in (("wide", WIDE), ("phone", PHONE)):
            with window(browser, size, color_scheme=scheme) as page:
                shoot(page, to / f"{word}-{scheme}.png", full_page=True)
                tell(page, 3)
                page.evaluate("scrollTo(0, 0)")
                shoot(page, to / f"{word}-{scheme}-story.png", full_page=True)


def shoot(page: Page, to: Path, **more: Any) -> None:
    # Hiding the caret would need a style that the page's policy forbids.
    page.screenshot(path=to, caret="initial", **more)


def photograph(browser: Browser) -> None:
    with window(browser, {"width": 1060, "height": 930}) as page:
        tell(page, 3)
        page.evaluate("document.getElementById('paths-title').scrollIntoView()")
        page.evaluate("scrollBy(0, -60)")
        shoot(page, DOCS / "page.png")
    with window(browser, PHONE, color_scheme="dark") as page:
        shoot(page, DOCS / "page-phone.png")


def tell(page: Page, row: int) -> str:
    """Opens a story; the name of its address."""
    button = page.locator(".open").nth(row)
    button.click()
    expect(page.locator(".story svg")).to_be_visible()
    return button.inner_text()


def check(browser: Browser, daemon: subprocess.Popen, near: str, far: str) -> None:
    for one in (
        check_table,
        check_story,
        check_keyboard,
        check_hostile_state,
        check_hostile_documents,
        check_narrow,
        check_shifts,
    ):
        with window(browser) as page:
            one(page)
        print(f"page: {one.__name__}", flush=True)
    for scheme in ("light", "dark"):
        check_axe(browser, scheme)
    check_strangers(near, far)
    check_flood(near)
    with window(browser) as page:
        check_stale(page, daemon)


def column(page: Page, number: int) -> list[float]:
    texts = page.locator(f"#paths tbody tr > :nth-child({number})").all_inner_texts()
    return [float(re.search(r"[\d.]+", text)[0]) for text in texts]


def check_table(page: Page) -> None:
    """Loads, sorts by click, and filters."""
    for line in ("state", "wrong", "helps", "gains", "alone"):
        assert len(page.locator(f"#lines .{line}").inner_text()) > 5, line
    expect(page.locator("#lines .state")).to_contain_text("chooses among")
    rates = page.locator("#paths thead th", has_text="With, Mbit/s")
    expect(rates).to_have_attribute("aria-sort", "none")
    rates.get_by_role("button").click()
    expect(rates).to_have_attribute("aria-sort", "descending")
    shown = column(page, 3)
    assert shown == sorted(shown, reverse=True) and shown[0] > 1, shown
    rates.get_by_role("button").click()
    expect(rates).to_have_attribute("aria-sort", "ascending")
    shown = column(page, 3)
    assert shown == sorted(shown), shown
    page.get_by_label("Search").fill("198.18.")
    expect(page.locator("#paths tbody tr")).to_have_count(2)
    expect(page.locator("#count")).to_contain_text("2 of 6 addresses")
    before = page.locator("#when").inner_text()
    expect(page.locator("#when")).not_to_have_text(before)  # it lives
    expect(page.locator("#paths tbody tr")).to_have_count(2)


def check_story(page: Page) -> None:
    name = tell(page, 3)
    story = page.locator(".story")
    expect(story).to_contain_text(f"{name} is on path")
    expect(story.locator("svg circle").first).to_be_visible()
    # A line needs two points of the history, and the story is told again every few seconds.
    line = story.locator("svg polyline.effect")
    until("the line has two points", lambda: " " in line.get_attribute("points"))
    expect(story).to_contain_text("Last decisions")
    expect(story).to_contain_text("Mbit/s")
    page.reload()  # the address of the page names the story
    expect(page.locator(".story svg")).to_be_visible()
    expect(page.locator(".story")).to_contain_text(f"{name} is on path")


def check_keyboard(page: Page) -> None:
    page.locator("#paths thead button").nth(7).focus()
    page.keyboard.press("Enter")
    expect(page.locator("#paths thead th").nth(7)).to_have_attribute("aria-sort", "ascending")
    page.keyboard.press("Tab")
    first = page.locator(".open").first
    expect(first).to_be_focused()
    page.keyboard.press("Enter")
    expect(first).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".story svg")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".story")).to_have_count(0)
    expect(page.locator(".open[aria-expanded=true]")).to_have_count(0)


def check_hostile_state(page: Page) -> None:
    """Names of a cgroup and of a folder are text."""
    for text in (HOSTILE, f"{HOSTILE}/state.db"):
        expect(page.locator("#host")).to_contain_text(text)
    assert page.locator("main img").count() == 0
    assert page.title().startswith("tcpilot"), page.title()


def check_hostile_documents(page: Page) -> None:
    """The same with every text of every document, as if all networks and users were hostile."""

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            kept = ("schema", "prefix")
            return {key: one if key in kept else spoil(one) for key, one in value.items()}
        if isinstance(value, list):
            return [spoil(one) for one in value]
        return (
            f"{value}{HOSTILE}<script>document.title='run'</script>"
            if isinstance(value, str)
            else value
        )

    # Asked for before the routes: they would ask outside of the daemon's namespace.
    name = page.locator(".open").first.inner_text()
    story = f"/data/path?name={name}"
    asked = "(address) => fetch(address).then((a) => a.ok ? a.json() : null)"
    documents = {
        address: until(address, lambda address=address: page.evaluate(asked, address))
        for address in ("/data/status", "/data/paths", story)
    }

    def answer(route: Route) -> None:
        kind = route.request.url.partition("/data/")[2].partition("?")[0]
        document = spoil(documents[story if kind == "path" else f"/data/{kind}"])
        for line in document.get("lines", []):
            line[0] = line[0].split("<")[0]
        route.fulfill(json=document)

    svg = f"<svg xmlns='http://www.w3.org/2000/svg'><text>{name}</text></svg>"
    for pattern in ("**/data/status", "**/data/paths", "**/data/path?*"):
        page.route(pattern, answer)
    page.route(
        "**/data/path.svg?*",
        lambda r: r.fulfill(content_type="image/svg+xml", body=svg),
    )
    page.reload()
    expect(page.locator(".open").first).to_contain_text(HOSTILE)
    for key in ("state", "wrong", "helps", "gains", "alone"):
        expect(page.locator(f"#lines .{key}")).to_contain_text(HOSTILE)
    page.locator(".open").first.click()
    expect(page.locator(".story")).to_contain_text("Last decisions")
    expect(page.locator(".story .rows").first).to_contain_text(HOSTILE)
    assert page.locator("main img").count() == 0 and page.locator("main script").count() == 0
    assert page.title().startswith("tcpilot"), page.title()


def check_narrow(page: Page) -> None:
    for width in (320, 360, 600, 820, 1000):
        page.set_viewport_size({"width": width, "height": 740})
        if page.locator(".story").count() == 0:
            tell(page, 3)
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= width, f"{wide} px in a window of {width}"


def check_shifts(page: Page) -> None:
    """Nothing jumps while the page loads and lives."""
    page.add_init_script(
        "window.shifts = 0;"
        " new PerformanceObserver((list) => { for (const one of list.getEntries())"
        " if (!one.hadRecentInput) window.shifts += one.value; })"
        ".observe({ type: 'layout-shift', buffered: true });"
    )
    page.reload()
    expect(page.locator("#effect svg, #effect p").first).to_be_visible()
    page.wait_for_timeout(5000)
    shifts = page.evaluate("window.shifts")
    assert shifts < 0.1, f"a layout shift of {shifts:.3f}; 0.1 is the most of a good page"


def check_axe(browser: Browser, scheme: str) -> None:
    for size in (WIDE, PHONE):
        with window(browser, size, color_scheme=scheme) as page:
            tell(page, 3)
            for where in ("page", "report"):
                if where == "report":
                    page.goto(f"http://127.0.0.1:{LISTEN}/report")
                found = Axe().run(page)
                assert found.violations_count == 0, found.generate_report()
                print(
                    f"page: axe finds nothing in the {where}, {scheme}, {size['width']} px",
                    flush=True,
                )


def fetch(space: str, to: str, path: str, *more: str) -> tuple[str, str]:
    """The status and the body of an answer, asked for in a namespace."""
    words = [
        "ip",
        "netns",
        "exec",
        space,
        "curl",
        "-s",
        "-m",
        "20",
        "-w",
        "\\n%{http_code}",
        *more,
    ]
    answer = subprocess.run(
        [*words, f"http://{to}:{LISTEN}{path}"],
        capture_output=True,
        text=True,
        check=True,
    )
    body, _, status = answer.stdout.rpartition("\n")
    return status, body


def check_strangers(near: str, far: str) -> None:
    """Other hosts and other names get metrics alone; nobody can write."""
    paths = (
        "/",
        "/report",
        "/data/status",
        "/data/paths",
        f"/data/path?name={PEERS[0][0]}",
    )
    for path in paths:
        assert fetch(far, "10.78.0.1", path)[0] == "403", path
        assert fetch(near, "127.0.0.1", path, "-H", "Host: attacker.example")[0] == "403", path
        assert fetch(near, "127.0.0.1", path, "-X", "POST")[0] == "405", path
    assert fetch(far, "10.78.0.1", "/metrics")[0] == "200"
    print("page: check_strangers", flush=True)


def check_flood(near: str) -> None:
    """Clients without pause get answers, and the daemon goes on with others."""
    urls = [f"http://127.0.0.1:{LISTEN}/data/{path}" for path in ("status", "paths")]
    urls += [f"http://127.0.0.1:{LISTEN}/data/path?name={peer[0]}" for peer in PEERS]
    words = f"ip netns exec {near} timeout 10 sh -c"
    loop = "while :; do curl -s " + " ".join(urls) + ">/dev/null; done"
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(process([*words.split(), loop], stderr=subprocess.DEVNULL))
        slowest = 0.0
        for _ in range(20):
            begun = time.monotonic()
            assert fetch(near, "127.0.0.1", "/readyz")[0] == "200"
            slowest = max(slowest, time.monotonic() - begun)
            time.sleep(0.3)
    assert slowest < 2, slowest
    print(
        f"page: check_flood, the slowest of 20 other answers took {slowest:.2f} s",
        flush=True,
    )


def check_stale(page: Page, daemon: subprocess.Popen) -> None:
    daemon.terminate()
    daemon.wait(30)
    expect(page.locator("body")).to_have_class(re.compile("stale"))
    expect(page.locator("#state")).to_contain_text("stale: tcpilot cannot be reached")
    expect(page.locator("#when")).to_contain_text("ago")
    print("page: check_stale", flush=True)


if __name__ == "__main__":
    main()
