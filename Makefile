# Open Model Atlas: `make atlas` builds it, `make test` checks it, `make help` lists the rest.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SITE ?= build/site
DEMO := smollm2-135m-instruct
PIP := $(BIN)/python -m pip --disable-pip-version-check
KATEX := src/openmodelatlas/site/static/katex/katex.min.js
# make atlas OFFLINE=1: ask no network at all (a first run must have filled the caches)
OFFLINE_FLAG := $(if $(OFFLINE),--offline,)

.DEFAULT_GOAL := help
.PHONY: help mutants verify bench atlas test check serve assets demo browser lint wheel clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

atlas: $(VENV)/.ready assets demo ## install, fetch, derive, check and build the atlas into build/site
	@$(BIN)/oma site --out $(SITE) $(OFFLINE_FLAG)

test: $(VENV)/.ready-test assets demo browser lint ## the whole suite: lint, types, tests, browser, wheel
	$(BIN)/python -m pytest

check: $(VENV)/.ready-test assets lint ## the fast part of the suite, for daily use
	$(BIN)/python -m pytest -m "not slow and not browser and not network"

serve: atlas ## build the atlas and serve it on this machine
	$(BIN)/oma serve --dir $(SITE)

assets: $(KATEX) ## fetch what pages are made with (KaTeX, by npm) into the package

demo: $(VENV)/.ready ## fetch the demo checkpoint into the cache
	@$(BIN)/oma pull $(DEMO) $(OFFLINE_FLAG)

lint: $(VENV)/.ready-test ## ruff and mypy
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy

wheel: $(VENV)/.ready-test assets ## build the wheel into dist
	$(BIN)/python -m build --wheel --no-isolation

verify: $(VENV)/.ready-test demo ## run every check of every model again (minutes)
	$(BIN)/oma verify --all

mutants: $(VENV)/.ready-test demo ## break the definition, the tables and the pins on purpose; print how much is noticed
	$(BIN)/python -m tests.mutants

bench: $(VENV)/.ready-test demo ## time what the project promises to be quick (on an idle machine)
	$(BIN)/python benchmarks/run.py

clean: ## remove what was built (the cache and the virtual environment stay)
	rm -rf build dist

$(KATEX): $(VENV)/.ready src/openmodelatlas/site/assets.py
	@$(BIN)/python -m openmodelatlas.site.assets
	@touch $@

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed; found %s (set PYTHON=...)" % sys.version.split()[0])'
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	@echo "installing the package and what it needs"
	@$(PIP) install --quiet --progress-bar on --constraint constraints.txt hatchling
	@$(PIP) install --progress-bar on --constraint constraints.txt --editable .
	@touch $@

$(VENV)/.ready-test: $(VENV)/.ready
	@echo "installing what the tests need"
	@$(PIP) install --progress-bar on --constraint constraints.txt --editable '.[test]'
	@touch $@

# Debian's Chromium and its driver; installed only where they are missing.
browser:
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium for the browser tests"; \
		apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q chromium chromium-driver; \
	else \
		echo "the browser tests need Debian's packages chromium and chromium-driver: install them, then run make again" >&2; exit 1; \
	fi
