"""A browser on a built site, with the few things that tests do and ask."""

from collections.abc import Callable
from pathlib import Path

from selenium.webdriver import ActionChains, Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

WIDE, PHONE = (1440, 1000), (390, 844)


class Reader:
    """A browser on the site, with the few things that tests do and ask."""

    def __init__(self, browser: Chrome, site: Path) -> None:
        self.browser, self.site = browser, site

    def size(self, size: tuple[int, int], *, dark: bool = False) -> None:
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})

    def open(self, name: str) -> None:
        self.browser.get("about:blank")
        self.browser.get((self.site / name.split("#")[0]).as_uri() + ("#" + name.split("#")[1] if "#" in name else ""))

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def node(self, name: str) -> WebElement:
        return self.one(f'.map .n[data-id="{name}"]')

    def until(self, holds: Callable[[], object]) -> None:
        WebDriverWait(self.browser, 5, poll_frequency=0.05).until(lambda _: holds())

    def title(self) -> str:
        return str(self.browser.execute_script(
            "return document.getElementById('panel').hidden ? '' : document.querySelector('#content .title').innerText"
        ))  # fmt: skip

    def fragment(self) -> str:
        return str(self.browser.execute_script("return decodeURIComponent(location.hash)"))

    def lit(self) -> set[str]:
        found = self.browser.execute_script(
            "return [...document.querySelectorAll('.lit')].map(e => e.dataset.id || e.dataset.light ||"
            " (e.classList.contains('stream') ? 'stream' : ''))"
        )
        return set(found)

    def focused(self) -> str:
        return str(self.browser.execute_script("return document.activeElement.dataset.id || ''"))

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()
