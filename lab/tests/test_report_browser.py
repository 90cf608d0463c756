"""The page in a real browser.  `pytest -m browser`; needs Debian's chromium."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from synthetic import write_campaign, write_pair, write_tuned

from tcplab import report

pytestmark = pytest.mark.browser

# No figure here is a time: a loaded machine may take as long as it needs.
PATIENCE_MS = 180_000
expect.set_options(timeout=PATIENCE_MS)

AXES = {
    "qdisc": ["pfifo", "codel"],
    "first": ["cubic", "vegas", "bbr"],
    "second": ["none", "cubic", "vegas", "bbr"],
}


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Addresses of the reports."""
    root = tmp_path_factory.mktemp("reports")
    fairness = write_campaign(root, "fairness", AXES, repetitions=2)
    for qdisc in AXES["qdisc"]:
        for first in AXES["first"]:
            for second in AXES["second"]:
                labels = {"qdisc": qdisc, "first": first, "second": second}
                share = 0.5 if first == second else 0.9
                for repetition in range(2):
                    bad = (qdisc, first, second) == ("codel", "bbr", "vegas")
                    status = "rejected" if bad else "ok"
                    write_pair(fairness, labels, share, repetition, status=status)
    variants = ["cubic", "bbr", "tcpilot"]
    choice = write_campaign(root, "choice", {"condition": ["loss5"], "variant": variants})
    rates = {"cubic": 2.0, "bbr": 10.0}
    for variant in variants:
        chosen = [variant if variant in rates else "bbr"] * 9
        write_tuned(choice, {"condition": "loss5", "variant": variant}, rates, chosen)
    traced = write_campaign(root, "cellular", {"trace": ["lte-walk"], "variant": ["cubic", "bbr"]})
    for variant, share in (("cubic", 0.6), ("bbr", 0.4)):
        labels = {"trace": "lte-walk", "variant": variant}
        follow_a_trace(
            write_pair(traced, {**labels, "first": variant, "second": variant}, share), labels
        )
    real = root / "pairs"
    shutil.copytree(Path(__file__).parent / "data" / "pairs", real)
    return {
        "real": report.write(real).as_uri(),
        "cellular": report.write(traced).as_uri(),
        "fairness": report.write(fairness).as_uri(),
        "choice": report.write(choice).as_uri(),
    }


def follow_a_trace(folder: Path, labels: dict[str, str]) -> None:
    """Makes a pair's link offer twice as much as passed."""
    file = folder / "cell.json"
    links = [{"trace": labels["trace"]}]
    cell = {**json.loads(file.read_text()), "labels": labels, "scenario": {"links": links}}
    file.write_text(json.dumps(cell))
    queues = pd.read_parquet(folder / "queues.parquet")
    queues["offered_bytes"] = 2 * queues["sent_bytes"]
    queues.to_parquet(folder / "queues.parquet")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium without a sandbox of its own: root, as in CI, could not start it."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "chromium is missing: apt-get install chromium"
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page; any error message, and any request to a network, fails the test."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    opened.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    opened.on("pageerror", lambda e: wrong.append(str(e)))
    opened.on("request", lambda r: wrong.append(r.url) if r.url.startswith("http") else None)
    yield opened
    opened.close()
    assert wrong == []


def test_clicking_a_cell_shows_its_time_series(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    page.get_by_role("button", name="qdisc pfifo · first cubic · second bbr").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    expect(dialog.locator("#detail-series .main-svg").first).to_be_visible()
    lines = dialog.locator("#detail-series .scatterlayer path.js-line")
    expect(lines).to_have_count(7)  # three panels of two connections, and the backlog
    for title in (
        "Goodput, Mbit/s",
        "Congestion window, packets",
        "Smoothed RTT, ms",
        "Backlog, kB",
    ):
        expect(dialog.get_by_text(title, exact=True)).to_be_visible()
    shape = lines.first.get_attribute("d")
    assert shape is not None
    assert shape.count("L") + shape.count(",") > 50, "a line of many points"


def test_trace_links_are_plotted_without_a_click(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["cellular"])
    figure = page.locator("#time-figures .plot")
    expect(figure).to_have_count(1)
    # Goodput and round trip of two variants, and the link's offer.
    expect(figure.locator(".scatterlayer path.js-line")).to_have_count(5)
    for text in ("Smoothed RTT, ms", "cubic", "bbr", "trace lte-walk"):
        expect(figure.get_by_text(text, exact=True).first).to_be_visible()
    page.goto(pages["fairness"])
    expect(page.locator("#time")).to_be_hidden()


def test_cells_that_were_really_measured_are_drawn(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["real"])
    for name, lines in (("cubic", 7), ("bbr", 7)):
        page.get_by_role("button", name=f"first {name} · second {name}").first.click()
        drawn = page.locator("#detail-series .scatterlayer path.js-line")
        expect(drawn).to_have_count(lines)
        page.keyboard.press("Escape")
    expect(page.locator("#expected .badge")).to_have_text("missed")


def test_repetitions_can_be_changed(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    page.get_by_role("button", name="qdisc pfifo · first cubic · second bbr").click()
    chosen = page.get_by_role("button", name="repetition 1")
    chosen.click()
    expect(page.get_by_role("button", name="repetition 1")).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.locator("#detail-status")).to_contain_text("cells/pfifo-cubic-bbr-r1")


def test_escape_closes_and_returns_to_the_cell(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    cell = page.get_by_role("button", name="qdisc pfifo · first cubic · second bbr")
    cell.click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(cell).to_be_focused()


def test_arrows_move_within_the_map_and_enter_opens(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    page.get_by_role("button", name="qdisc pfifo · first cubic · second cubic").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    moved = page.get_by_role("button", name="qdisc pfifo · first vegas · second vegas")
    expect(moved).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#detail-title")).to_have_text("qdisc pfifo · first vegas · second vegas")


def test_another_metric_redraws_the_map(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    cell = page.locator("#maps button.cell").nth(1)
    before = cell.inner_text()
    page.get_by_label("Metric").select_option("goodput_mbit.first")
    assert page.locator("#maps button.cell").nth(1).inner_text() != before
    expect(page.locator("#metric-note")).to_contain_text("Goodput of first")


def test_a_link_to_a_cell_opens_it(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"] + "#cell=codel-vegas-bbr-r1")
    expect(page.locator("#detail-title")).to_have_text("qdisc codel · first vegas · second bbr")


def test_rejected_cells_are_seen_and_explained(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    page.get_by_role("button", name="first bbr · second vegas: rejected").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("#detail-status")).to_contain_text("REJECTED")
    expect(dialog.locator(".badge.bad", has_text="failed")).to_have_count(1)


def test_dark_and_light_differ_and_both_are_readable(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["fairness"])
    contrast = """() => [...document.querySelectorAll('#maps .cell:not(.broken)')].map((cell) => {
        const light = (text) => { const [r, g, b] = text.match(/\\d+/g).map((v) => {
            const s = v / 255; return s <= 0.04045 ? s / 12.92 : ((s + 0.055) / 1.055) ** 2.4; });
            return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
        const style = getComputedStyle(cell);
        const [a, b] = [light(style.color), light(style.backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05); })"""
    papers = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
        papers.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert min(page.evaluate(contrast)) >= 4.0
    assert len(papers) == 2


@pytest.mark.parametrize("width", [390, 820, 1600])
def test_nothing_is_wider_than_the_window(page: Page, pages: dict[str, str], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    for address in pages.values():
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_tuners_table_is_shown(page: Page, pages: dict[str, str]) -> None:
    page.goto(pages["choice"])
    section = page.locator("#tuners")
    expect(section).to_be_visible()
    expect(section).to_contain_text("bbr for 9 of 9 connections, 5.00× cubic, regret 0.000")
    expect(section.locator("thead").first).to_contain_text("cost, 10⁻⁶")


def test_shares_and_retransmissions_are_visible_without_a_click(
    page: Page, pages: dict[str, str]
) -> None:
    page.goto(pages["fairness"])
    row = page.locator("#flows tbody tr", has_text="vegas").filter(has_text="bbr").first
    expect(row).to_be_visible()
    expect(row).to_contain_text("0.50 %")
    page.get_by_label("Metric").select_option("goodput_mbit.first")
    expect(page.locator("#maps button.cell .price").first).to_have_text("↻ 0.50 %")


def test_values_within_the_floor_have_one_colour(page: Page, pages: dict[str, str]) -> None:
    colours = """() => new Set([...document.querySelectorAll('#maps .cell:not(.broken, .none)')]
        .map((cell) => getComputedStyle(cell).backgroundColor)).size"""
    page.goto(pages["fairness"])
    page.get_by_label("Metric").select_option("goodput_mbit")
    assert page.evaluate(colours) == 1, "all fill the same link"
    expect(page.locator("#maps .legend").first).to_have_text("19.13 Mbit/s")
    page.get_by_label("Metric").select_option("goodput_mbit.first")
    assert page.evaluate(colours) > 1
