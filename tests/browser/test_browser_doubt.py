"""The filter that shows what no run has verified, on a page with a made-up run."""

from pathlib import Path

import pytest
from made_site import RUN, ran
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from openmodelatlas.site.build import build

pytestmark = pytest.mark.browser


def boxes(browser: Chrome, kind: str) -> set[str]:
    found = browser.find_elements(By.CSS_SELECTOR, f".map .box.{kind}")
    return {box.get_attribute("data-id") or "" for box in found}


def test_what_is_not_verified_stands_out(chromium: Chrome, tmp_path: Path) -> None:
    build([ran(RUN)], [], tmp_path / "site")
    chromium.get((tmp_path / "site" / "llama-3-8b" / "index.html").as_uri())
    button = chromium.find_element(By.ID, "doubt")
    assert boxes(chromium, "faded") == boxes(chromium, "unproved") == set()
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert {"block.attention_add", "norm"} <= boxes(chromium, "faded")
    assert {"block.ffn_add", "embed"} <= boxes(chromium, "unproved")
    assert not boxes(chromium, "faded") & boxes(chromium, "unproved")
    button.click()
    assert boxes(chromium, "faded") == boxes(chromium, "unproved") == set()
