"""What a reader can do where blocks are of several kinds, and on the front page with many models."""

import pytest
from browser_reader import PHONE, WIDE, Reader
from made_site import LLAMAS, MODELS
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from openmodelatlas.records.graph import Graph

pytestmark = pytest.mark.browser


def large(reader: Reader) -> list[str]:
    """The kinds of block that are shown large."""
    figures = reader.all(".regions figure")
    return [figure.get_attribute("data-region") or "" for figure in figures if figure.is_displayed()]


def lens(reader: Reader) -> str:
    return reader.one(".lens path").get_attribute("d") or ""


def test_one_kind_is_shown_large_and_the_other_is_a_click_away(reader: Reader, mixture: Graph) -> None:
    first, second = (region.name for region in mixture.regions)
    reader.open(f"{mixture.model}/index.html")
    assert large(reader) == [first]
    from_first = lens(reader)
    button = reader.one(f'[data-enlarge="{second}"]')
    button.click()
    assert large(reader) == [second]
    assert button.get_attribute("aria-pressed") == "true"
    assert reader.one(f'[data-enlarge="{first}"]').get_attribute("aria-pressed") == "false"
    assert lens(reader) != from_first
    assert reader.title() == ""  # a look at the other kind opens no panel


def test_a_cell_leads_to_its_kind(reader: Reader, mixture: Graph) -> None:
    second = mixture.regions[1]
    reader.open(f"{mixture.model}/index.html")
    cells = reader.one(".cells svg").rect
    across = (second.indices[0] + 0.4) / mixture.axes["L"]
    reader.browser.execute_script(
        "document.elementFromPoint(arguments[0], arguments[1])"
        ".dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))",
        cells["x"] + across * cells["width"],
        cells["y"] + cells["height"] / 2,
    )
    reader.until(lambda: reader.title() == mixture.by_id[second.name].title)
    assert large(reader) == [second.name]


def test_one_stop_of_the_keyboard_for_each_kind(reader: Reader, mixture: Graph) -> None:
    reader.open(f"{mixture.model}/index.html")
    reader.browser.execute_script("document.querySelector('.provenance a').focus()")
    stops = []
    for _ in range(4):
        reader.press(Keys.TAB)
        where = "const e = document.activeElement; return e.closest('.layers') ? e.dataset.id : ''"
        stops.append(reader.browser.execute_script(where))
    assert [stop for stop in stops if stop] == [region.name for region in mixture.regions]
    slabs = reader.all(f'.map a.box[data-id="{mixture.regions[0].name}"]')
    assert len(slabs) == 1
    assert len(slabs[0].find_elements(By.CSS_SELECTOR, "rect.slab")) == mixture.regions[0].count


def test_an_address_inside_the_other_kind_shows_it(reader: Reader, mixture: Graph) -> None:
    second = mixture.regions[1]
    for name in (f"{second.name}.attention.attend.softmax", f"blocks.{second.indices[-1]}.attention.attend.softmax"):
        reader.open(f"{mixture.model}/index.html#{name}")
        reader.until(lambda: reader.title() == "Attention weights")
        reader.until(lambda: reader.node(f"{second.name}.attention.attend.softmax").is_displayed())
        assert large(reader) == [second.name]
    first = mixture.regions[0].name
    reader.one("#content .kin a").click()
    reader.until(lambda: reader.fragment() == f"#{first}.attention.attend.softmax")
    assert large(reader) == [first]


def test_the_search_understands_a_blocks_own_path(reader: Reader, mixture: Graph) -> None:
    second = mixture.regions[1]
    reader.open(f"{mixture.model}/index.html")
    reader.press("/", f"blocks.{second.indices[0]}.attention.q")
    reader.until(lambda: reader.all("#hits li"))
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.fragment() == f"#{second.name}.attention.q")
    reader.open("llama-3-8b/norm.html")
    reader.press("/", "blocks.7.ffn_norm")
    reader.until(lambda: reader.all("#hits li"))
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.browser.current_url.endswith("/llama-3-8b/block.ffn_norm.html"))


def test_both_kinds_stand_there_without_a_script(reader: Reader, mixture: Graph) -> None:
    reader.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        reader.open(f"{mixture.model}/index.html")
        assert large(reader) == [region.name for region in mixture.regions]
        assert not reader.one(".tools.over").is_displayed()
        for figure in reader.all(".stage figure"):
            assert figure.rect["x"] + figure.rect["width"] <= WIDE[0]
    finally:
        reader.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("name", ["llama-3-8b", *(name for name in MODELS if name not in LLAMAS)])
def test_every_family_fits(reader: Reader, name: str, size: tuple[int, int]) -> None:
    reader.size(size)
    for page in ("index.html", "norm.html"):
        reader.open(f"{name}/{page}")
        assert reader.browser.execute_script("return document.documentElement.scrollWidth") <= size[0]
        wide = reader.browser.execute_script(
            "return [...document.querySelectorAll('.map a.box, .map a.pill')].filter(a => {"
            " const r = a.querySelector('rect:not(.back)'); if (!r || !a.getClientRects().length) return false;"
            " const b = r.getBBox(); return [...a.querySelectorAll('text')].some(t => { const s = t.getBBox();"
            " return s.x < b.x + 2 || s.x + s.width > b.x + b.width - 2; }); }).map(a => a.dataset.id)"
        )
        assert wide == []


def cut(element: WebElement) -> str:
    """The sides on which an element fades out."""
    return " ".join(name for name in (element.get_attribute("class") or "").split() if name.startswith("cut"))


def test_what_is_wider_than_its_place_fades_where_there_is_more(reader: Reader, mixture: Graph) -> None:
    reader.size(PHONE)
    reader.open(f"{mixture.model}/index.html")
    for selector in (".pic", ".scroll"):
        wide = [e for e in reader.all(selector) if e.get_property("scrollWidth") > e.get_property("clientWidth") + 4]
        assert wide, selector
        assert {cut(element) for element in wide} == {"cut-right"}
        reader.browser.execute_script("arguments[0].scrollLeft = 9999", wide[0])
        reader.until(lambda element=wide[0]: cut(element) == "cut-left")
    reader.size(WIDE)
    reader.open("llama-3-8b/index.html")
    assert {cut(element) for element in reader.all(".pic")} == {""}


def shown(reader: Reader) -> list[str]:
    """The names on the cards that are there, in order."""
    cards = [card for card in reader.all(".cards li") if card.is_displayed()]
    return [card.find_element(By.CSS_SELECTOR, ".name").text for card in cards]


def choose(reader: Reader, selector: str, value: str) -> None:
    reader.browser.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('change', {bubbles: true}))",
        selector,
        value,
    )


def test_the_front_page_filters_and_orders(reader: Reader) -> None:
    reader.open("index.html")
    everything = shown(reader)
    choose(reader, "#order", "count")
    counts = [int(card.get_attribute("data-count") or 0) for card in reader.all(".cards li") if card.is_displayed()]
    assert counts == sorted(counts)
    assert len(counts) == len(everything)
    choose(reader, '[data-filter="kind"]', "mixture of experts")
    assert all("x" in name for name in shown(reader))
    assert reader.one("#shown").text == f"{len(shown(reader))} of {len(everything)}"
    choose(reader, '[data-filter="trait"]', "q and k normed")
    assert shown(reader) == []
    assert reader.one("#none").is_displayed()
    choose(reader, '[data-filter="kind"]', "")
    choose(reader, "#order", "date")
    assert shown(reader)
    choose(reader, '[data-filter="trait"]', "")
    choose(reader, "#order", "")
    assert shown(reader) == everything


def test_the_front_page_hides_families_that_have_nothing_to_show(reader: Reader) -> None:
    reader.open("index.html")
    reader.press("/", "meta")
    assert len([family for family in reader.all(".family") if family.is_displayed()]) == 1
    assert all(name.startswith("Llama") for name in shown(reader))
