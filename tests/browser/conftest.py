"""A headless Chromium and a small built site, opened from disk."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import made_site
import pytest
from browser_reader import WIDE, Reader
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from openmodelatlas import maps
from openmodelatlas.records.graph import Graph

FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three models and a checkpoint, and of one model of every other family."""
    out = tmp_path_factory.mktemp("browser") / "out"
    others = [name for name in made_site.MODELS if name not in made_site.LLAMAS]
    made_site.build_site(out, ["llama-3-8b", "llama-3.1-8b", "smollm2-135m", *others])
    return out


@pytest.fixture(scope="session")
def mixture() -> Graph:
    """The map of a model on the site whose blocks are of several kinds."""
    return next(graph for graph in map(maps.graph, made_site.MODELS) if len(graph.regions) > 1)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """One browser for the session."""
    binary = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("needs chromium and chromedriver")
    options = Options()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(driver))
    browser.implicitly_wait(0)
    yield browser
    browser.quit()


@pytest.fixture
def reader(chromium: webdriver.Chrome, site: Path) -> Iterator[Reader]:
    """A wide, light window; afterwards nothing may have been complained of."""
    reader = Reader(chromium, site)
    reader.size(WIDE)
    chromium.get_log("browser")
    chromium.get_log("performance")
    yield reader
    assert chromium.get_log("browser") == []
    for entry in chromium.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            assert message["params"]["request"]["url"].startswith(("file:", "data:", "about:"))
