"""What can be taken away from the page: numbers in full, tables, pictures, lines, addresses."""

import base64
import csv
import json
import re
import shlex
import xml.etree.ElementTree as ET
import zlib
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from playwright.sync_api import expect

import vesalius as vs
from vesalius.cli import cli

MINUTE = 60_000
READ = "#t=He%20shook%20his"
LONG = "He shook his head, and said nothing. " * 8


@pytest.fixture(scope="module")
def page(browser, served):
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, permissions=["clipboard-read", "clipboard-write"]
    )
    context.set_default_timeout(MINUTE)
    page = context.new_page()
    complaints = []
    page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    served.open(page)
    yield page
    context.close()
    assert complaints == []


def opened(page, served, place):
    page.goto("about:blank")
    page.goto(f"{served.base}{place}")
    expect(page.locator("[data-value]")).to_be_visible(timeout=MINUTE)
    return page


def taken(page, what, kind):
    """The file that a picture's menu gives: its name and its bytes."""
    page.get_by_role("button", name=f"{what}: table and files", exact=True).click()
    with page.expect_download() as download:
        page.locator(".menu:popover-open").get_by_role("button", name=kind).click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


def copied(page, key):
    page.evaluate("navigator.clipboard.writeText('')")
    page.keyboard.press(key)
    expect(page.get_by_role("status")).to_contain_text("copied", timeout=MINUTE)
    return page.evaluate("navigator.clipboard.readText()")


def test_every_picture_is_a_table_and_three_files_that_say_what_was_cut(page, served):
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1&cut=P[1,1]{READ}")
    expect(page.locator(".waiting")).to_have_count(0, timeout=MINUTE)
    labels = page.locator(".opener").evaluate_all("all => all.map(one => one.ariaLabel)")
    assert len(labels) == 5
    for what in (label.removesuffix(": table and files") for label in labels):
        name, data = taken(page, what, "SVG")
        assert name.endswith("-1-cut.svg")
        drawing = ET.fromstring(data)
        assert "1 cut: P[1,1]" in drawing.findtext("{*}title")
        assert drawing.find('.//{*}pattern[@id="cuts"]') is not None
        assert len(drawing.findall(".//{*}text")) > 3
    name, data = taken(page, "mu[3,4]", "PNG")
    assert (name, data[:8]) == ("gpt-mu-3-4-1-cut.png", b"\x89PNG\r\n\x1a\n")
    said, *rows = taken(page, "mu[3,4]", "CSV")[1].decode().splitlines()
    assert said.startswith("# mu[3,4] · gpt · “He shook his”")
    assert said.endswith("1 cut: P[1,1]")
    values = vs.dissect("gpt", "He shook his", edit={"P[1,1]": vs.zero})["mu[3,4]"]
    assert np.array_equal(np.float32([row.split(",")[1:] for row in rows[1:]]), values)
    page.locator("canvas").hover()
    page.keyboard.press("t")
    table = page.get_by_role("region", name="table: mu[3,4]").get_by_role("table")
    cells = table.locator("tbody tr").nth(2).locator("td")
    assert cells.all_inner_texts() == [f"{value:#.4g}" for value in values[2]]
    exact = cells.evaluate_all("all => all.map((one) => one.dataset.full)")
    assert np.array_equal(np.float32(exact), values[2])
    page.keyboard.press("t")
    expect(table).to_have_count(0)
    name, data = taken(page, "the likeliest words", "CSV")
    assert (name, len(list(csv.reader(StringIO(data.decode()))))) == ("gpt-words-1-cut.csv", 1002)


@pytest.mark.parametrize(
    "place",
    [
        f"/gpt/dissect/H[3]?at=7,2&cut=P[1,1]{READ}",
        f"/lstm/dissect/h[1,2]?at=3&cut=h[1,1]{READ}",
        f"/lstm/dissect/h[1,2]?at=3&cut=p[1,*](3)=1{READ}",
        "/bert/dissect/Z?at=1996,4&cut=P[1,2]#t=-%20a%20%5BMASK%5D's%20%22cat",
        "/bert/dissect/H[3]?at=7,6&cut=P[1,2]#t=He%20shook&b=-%20his%20'head",
    ],
)
def test_the_number_the_line_of_python_and_the_command_are_one(page, served, place):
    opened(page, served, place)
    numbers = []
    for cuts in (1, 0):
        number = np.float32(copied(page, "c"))
        line, command = copied(page, "y"), copied(page, "Y")
        assert eval(line, {"vs": vs}) == number
        assert line.count("edit=") == command.count("--cut") == cuts
        program, verb, *rest = shlex.split(command)
        assert (program, verb) == ("vesalius", "unfold")
        told = CliRunner().invoke(cli, ["unfold", "--json", *rest], catch_exceptions=False)
        assert np.float32(json.loads(told.output)["value"]) == number
        page.locator("[data-value]").select_text()
        page.keyboard.press("Control+c")
        assert np.float32(page.evaluate("navigator.clipboard.readText()")) == number
        numbers.append(number)
        page.keyboard.press("u")
        expect(page.locator(".edited")).to_have_count(0)
        expect(page.locator('.page[data-busy="no"]')).to_be_visible()
    assert numbers[0] != numbers[1]


@pytest.mark.parametrize("key", ["c", "y"])
def test_of_two_families_the_number_at_the_cursor_is_copied(page, served, key):
    read = {"text": "He shook his"}
    mine, theirs = vs.dissect("gpt", *read.values()), vs.dissect("lstm", *read.values())

    def number():
        text = copied(page, key)
        return np.float32(text if key == "c" else eval(text, {"vs": vs}))

    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1&vs=lstm{READ}")
    expect(page.locator("[data-cell=a]")).to_be_visible(timeout=MINUTE)
    assert number() == mine["mu[3,4]"][2, 1]
    expect(page.get_by_role("status")).to_contain_text("A's: B has no such mu[3,4]")
    opened(page, served, f"/gpt/dissect/Z?at=5,2&vs=lstm{READ}")
    expect(page.locator("[data-cell=difference]")).to_be_visible(timeout=MINUTE)
    assert number() == theirs["Z"][5, 2] - mine["Z"][5, 2]
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1&vs=lstm{READ}")
    page.get_by_role("group", name="which run").get_by_role("button", name="B", exact=True).click()
    expect(page.locator("[data-which]")).to_have_text("B", timeout=MINUTE)
    expect(page.locator('.page[data-busy="no"]')).to_be_visible(timeout=MINUTE)
    step, at = re.search(r"dissect/([^?]+)\?at=([\d,]+)", page.url).groups()
    assert number() == theirs[step][tuple(map(int, at.split(",")))]


def test_files_say_what_was_read_as_it_is_read(page, served):
    for place, text in {
        "/bert/dissect#t=he%20%5BMASK%5D%20his%20head": "he [MASK] his head",
        "/bert/dissect?mask=2#t=he%20shook&b=her%20head": "[CLS] he [MASK] [SEP] her head [SEP]",
        "/gpt/dissect#t=%D8%A7%D8%A7": "اا",
    }.items():
        opened(page, served, place)
        said = taken(page, "the likeliest words", "CSV")[1].decode().splitlines()[0]
        assert f"“{text}”" in said
        expect(page.locator("h1 .given")).to_contain_text(re.sub(r"\s", "", text))


def test_the_file_of_the_gates_has_every_unit(page, served):
    page.goto("about:blank")
    page.goto(f"{served.base}/lstm/heads/c[2,3]?at=5{READ}")
    expect(page.locator("[data-ribbon=c]")).to_be_visible(timeout=MINUTE)
    data = taken(page, "unit 5 of layer 2 over time", "CSV")[1].decode()
    _, heads, *rows = csv.reader(StringIO(data))
    trace = vs.dissect("lstm", "He shook his")
    for unit in (0, 5, len(trace["c[2,1]"]) - 1):
        column = heads.index(f"c({unit})")
        values = [trace[f"c[2,{t}]"][unit] for t in (1, 2, 3)]
        assert np.array_equal(np.float32([row[column] for row in rows]), np.float32(values))


def test_rooms_without_a_cursor_copy_the_number_that_they_show(page, served):
    page.goto(f"{served.base}/gpt/ledger?set=layers:6,tied:false")
    total = vs.count("gpt", layers=6, tied=False).total
    expect(page.locator(f'[data-total="{total}"]')).to_be_visible()
    line, command = copied(page, "y"), copied(page, "Y")
    assert eval(line, {"vs": vs}) == int(copied(page, "c")) == total
    told = CliRunner().invoke(cli, [*shlex.split(command)[1:], "--json"], catch_exceptions=False)
    assert json.loads(told.output)["total"] == total
    page.goto(f"{served.base}/gpt/words{READ}")
    expect(page.get_by_label("nearest by cosine").locator("li")).to_have_count(9)
    assert np.float32(eval(copied(page, "y"), {"vs": vs})) == np.float32(copied(page, "c"))
    page.goto(f"{served.base}/gpt/runs")
    page.keyboard.press("y")
    expect(page.get_by_role("status")).to_contain_text("no number stands at the cursor here")


def test_a_long_text_is_deflated_in_the_address_and_comes_back(page, served):
    opened(page, served, f"/gpt/dissect{READ}")
    page.keyboard.press("/")
    page.get_by_label("text", exact=True).fill(LONG)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("#z="), timeout=MINUTE)
    packed = page.url.partition("#z=")[2]
    data = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    assert zlib.decompress(data, wbits=-15).decode() == LONG
    count, long = page.locator(".count"), f"{len(vs.dissect('gpt', LONG).ids)} of 256"
    expect(count).to_have_text(long)
    page.go_back()
    expect(count).to_have_text("3 of 256")
    page.go_forward()
    expect(count).to_have_text(long)
    page.reload()
    expect(count).to_have_text(long, timeout=MINUTE)
    page.goto("about:blank")
    page.goto(f"{served.base}/gpt/dissect#z={packed[:40]}")
    expect(page.get_by_role("alert")).to_contain_text("may have been cut short")


def test_single_letters_can_be_switched_off_and_stay_off(page, served):
    opened(page, served, f"/gpt/dissect/mu[3,4]?at=2,1{READ}")
    box = page.get_by_label("single letters and signs are keys")
    for rest in ("?at=2,1#", "?at=2,1&cut=P[3,4]#"):
        page.get_by_label("keys", exact=True).click()
        box.click()
        page.get_by_role("button", name="close").click()
        page.reload()
        expect(page.locator("[data-value]")).to_be_visible(timeout=MINUTE)
        page.keyboard.press("x")
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowRight")
        expect(page).to_have_url(re.compile(re.escape(rest)))
