"""What a reader can do in a browser, with the site opened from disk."""

import pytest
from browser_reader import PHONE, WIDE, Reader
from made_site import CHECKPOINT
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By

pytestmark = pytest.mark.browser

PAGES = (
    "index.html",
    "how-to-read.html",
    "llama-3.1.html",
    "llama-3-8b/index.html",
    "llama-3-8b/block.attention.html",
    "llama-3-8b/block.attention_add.html",
    "llama-3-8b/block--out.html",
    f"{CHECKPOINT}/index.html",
    f"{CHECKPOINT}/block.attention.q.html",
    f"{CHECKPOINT}/ledger.html",
)


@pytest.mark.parametrize("page", PAGES)
def test_pages_open_quietly_and_fit_a_phone(reader: Reader, page: str) -> None:
    reader.size(PHONE)
    reader.open(page)
    assert reader.browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    assert reader.one("h1").is_displayed()


def test_symbols_are_set_in_the_shipped_font(reader: Reader) -> None:
    reader.open("llama-3-8b/block.attention_add.html")
    reader.until(lambda: reader.browser.execute_script("return document.fonts.check('16px KaTeX_Math')"))
    assert reader.browser.execute_script("return [...document.fonts].some(f => f.status === 'loaded')")


def test_panel_opens_closes_and_restores(reader: Reader) -> None:
    reader.open("llama-3.1.html")
    reader.node("block.attention_add").click()
    reader.until(lambda: reader.title() == "Attention residual addition")
    assert reader.fragment() == "#block.attention_add"
    assert "sel" in reader.node("block.attention_add").get_attribute("class").split()
    reader.press(Keys.ESCAPE)
    reader.until(lambda: reader.title() == "")
    assert reader.fragment() == ""
    assert reader.focused() == "block.attention_add"
    reader.node("block:out").find_element(By.CSS_SELECTOR, ".sym").click()
    reader.until(lambda: reader.title() == "Block output")
    reader.one("#close").click()
    reader.until(lambda: reader.title() == "")
    assert reader.fragment() == ""


def test_back_and_forward(reader: Reader) -> None:
    reader.open("llama-3-8b/index.html")
    reader.node("embed").click()
    reader.until(lambda: reader.title() == "Token embedding")
    reader.node("block.ffn_norm").click()
    reader.until(lambda: reader.title() == "Feed-forward norm")
    reader.browser.back()
    reader.until(lambda: reader.title() == "Token embedding")
    reader.browser.back()
    reader.until(lambda: reader.title() == "")
    reader.browser.forward()
    reader.until(lambda: reader.title() == "Token embedding")


def test_deep_link_opens_what_is_folded(reader: Reader) -> None:
    reader.open("llama-3.1.html#block.attention.attend.softmax")
    reader.until(lambda: reader.title() == "Attention weights")
    reader.until(lambda: reader.node("block.attention.attend.softmax").is_displayed())
    assert reader.one("#own").get_attribute("href").endswith("llama-3.1-8b/block.attention.attend.softmax.html")
    for link in reader.all("#content a.go"):
        assert "/llama-3.1-8b/" in link.get_attribute("href")


def test_symbols_light_the_diagram(reader: Reader) -> None:
    reader.open("llama-3.1.html#block.attention_add")
    reader.until(lambda: reader.title() == "Attention residual addition")
    expected = {
        "residual block.attention_add": {"stream", "block.attention_add"},
        "block:in": {"block:in"},
        "block.attention": {"block.attention", "block.attention.o:out"},
    }
    for light, targets in expected.items():
        symbol = reader.one(f'.eq [data-light="{light}"]')
        ActionChains(reader.browser).move_to_element(symbol).perform()
        assert targets <= reader.lit(), light
    reader.browser.execute_script("document.querySelector('.eq [data-light=\"block:in\"]').focus()")
    assert "block:in" in reader.lit()


def test_the_diagram_lights_symbols(reader: Reader) -> None:
    reader.open("llama-3-8b/block.attention_add.html")
    ActionChains(reader.browser).move_to_element(reader.node("block.attention")).perform()
    assert "block.attention" in {e.get_attribute("data-light") for e in reader.all(".eq .lit")}
    ActionChains(reader.browser).move_to_element(
        reader.node("block:in").find_element(By.CSS_SELECTOR, ".sym")
    ).perform()
    assert "block:in" in {e.get_attribute("data-light") for e in reader.all(".eq .lit")}
    ActionChains(reader.browser).move_to_element(reader.one("h1")).perform()
    assert reader.lit() == set()


def test_keyboard(reader: Reader) -> None:
    reader.open("llama-3-8b/index.html")
    reader.browser.execute_script("document.querySelector('.map [data-id=embed]').focus()")
    reader.press(Keys.ARROW_RIGHT)
    assert reader.focused() == "rope"
    reader.press(Keys.ARROW_LEFT)
    assert reader.focused() == "embed"
    reader.press(Keys.ARROW_DOWN)
    assert reader.focused() == "embed:out"
    reader.press(Keys.ARROW_UP)
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.title() == "Token embedding")
    reader.press(Keys.ESCAPE)
    reader.until(lambda: reader.focused() == "embed")
    reader.press("/")
    assert reader.browser.execute_script("return document.activeElement.id") == "q"
    reader.press("softm")
    reader.until(lambda: reader.all("#hits li"))
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.title() == "Attention weights")


def test_folding(reader: Reader) -> None:
    reader.open("llama-3-8b/index.html")
    assert not reader.all('.map [data-id="block.feed_forward.gate"]')
    reader.one('[data-fold="block.feed_forward"]').click()
    reader.until(lambda: reader.all('.map [data-id="block.feed_forward.gate"]'))
    button = reader.one('[data-fold="block.feed_forward"]')
    assert button.get_attribute("aria-expanded") == "true"
    reader.browser.execute_script("arguments[0].focus()", button)
    reader.press(Keys.ENTER)
    reader.until(lambda: not reader.all('.map [data-id="block.feed_forward.gate"]'))
    reader.one('[data-open="all"]').click()
    reader.until(lambda: reader.node("block.attention.attend.mix").is_displayed())
    reader.one('[data-open="none"]').click()
    reader.until(lambda: not reader.all('.map [data-id="block.attention.q"]'))


def test_search_on_a_node_page_goes_to_the_page(reader: Reader) -> None:
    reader.open("llama-3-8b/block.attention.html")
    reader.press("/", "causal")
    reader.until(lambda: reader.all("#hits li"))
    reader.press(Keys.ENTER)
    reader.until(lambda: reader.browser.current_url.endswith("/llama-3-8b/mask.html"))


def test_gallery_filters(reader: Reader) -> None:
    reader.open("index.html")
    reader.press("/", "hugging")
    shown = [e.text for e in reader.all(".cards li") if e.is_displayed()]
    assert len(shown) == 1
    assert "SmolLM2 135M" in shown[0]
    reader.press("zzz")
    assert reader.one("#none").is_displayed()


def test_dark_follows_the_system_and_the_button(reader: Reader) -> None:
    def paper() -> str:
        return str(reader.browser.execute_script("return getComputedStyle(document.body).backgroundColor"))

    reader.open("llama-3-8b/index.html")
    light = paper()
    reader.size(WIDE, dark=True)
    dark = paper()
    assert dark != light
    reader.one("#theme").click()
    assert paper() == light
    reader.open("index.html")
    assert paper() == light  # the choice stays
    reader.browser.execute_script("localStorage.clear()")


def test_phone_panel(reader: Reader) -> None:
    reader.size(PHONE)
    reader.open("llama-3.1.html#block.attention_add")
    reader.until(lambda: reader.title() == "Attention residual addition")
    box = reader.one("#panel").rect
    assert box["width"] <= PHONE[0]
    assert reader.browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    reader.one("#close").click()
    reader.until(lambda: reader.title() == "")


def test_text_fits_its_box(reader: Reader) -> None:
    reader.open("llama-3.1-8b/index.html")
    reader.one('[data-open="all"]').click()
    reader.until(lambda: reader.node("block.attention.attend.mix").is_displayed())
    wide = reader.browser.execute_script(
        "return [...document.querySelectorAll('.map a.box, .map a.pill')].filter(a => {"
        " const r = a.querySelector('rect:not(.back)'); if (!r) return false; const b = r.getBBox();"
        " return [...a.querySelectorAll('text')].some(t => { const s = t.getBBox();"
        " return s.x < b.x + 2 || s.x + s.width > b.x + b.width - 2; }); }).map(a => a.dataset.id)"
    )
    assert wide == []


def test_no_two_focusable_things_without_a_name(reader: Reader) -> None:
    for page in ("llama-3-8b/index.html", "llama-3-8b/block.attention.html"):
        reader.open(page)
        nameless = reader.browser.execute_script(
            "return [...document.querySelectorAll('a, button, [role=button], input')].filter(e =>"
            " !(e.getAttribute('aria-label') || e.textContent.trim())).map(e => e.outerHTML.slice(0, 80))"
        )
        assert nameless == []
        hidden = reader.browser.execute_script(
            "return document.querySelectorAll('[aria-hidden=true] a, [aria-hidden=true] [tabindex]').length"
        )
        assert hidden == 0
