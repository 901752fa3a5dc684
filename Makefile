SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install demo test test-page fuzz check format lint types layers campaign matrix heal-campaign mutants conformance bench clean

install: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "atleastonce needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make install PYTHON=python3.12" >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV) || \
		{ echo "cannot make $(VENV); on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 2; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: install
	$(BIN)/verify run --nemesis kill-leader

test: install
	$(BIN)/python -m pytest -n 2 -q
	@echo "Not among these tests: the page in Chromium (make test-page), fuzzing (make fuzz), Queen's own suite (make conformance)."

test-page: install
	@command -v chromedriver >/dev/null && { command -v chromium || command -v chromium-browser; } >/dev/null || \
		{ echo "make test-page needs a browser; on Debian: apt-get install chromium chromium-driver" >&2; exit 2; }
	$(BIN)/python -m pytest -q tests/browser

check: install lint types layers
	$(BIN)/python -m pytest -q tests/test_tidy.py tests/test_packaging.py

format: install
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: install
	$(BIN)/mypy -p atleastonce
	$(BIN)/mypy tests benchmarks

layers: install
	$(BIN)/lint-imports --no-cache

campaign: install
	$(BIN)/python -m atleastonce.verifier.simulation.campaign --seeds 20000

matrix: install
	$(BIN)/python -m atleastonce.verifier.matrix --seeds 5

heal-campaign: install
	$(BIN)/python -m tests.heal_campaign --moments 200

mutants: install
	$(BIN)/python -m atleastonce.verifier.matrix --defects --seeds 3 --store store/mutants

FUZZ_SECONDS ?= 60

fuzz: install
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock || \
		{ echo "make fuzz needs atheris, which has no wheel for this $$($(PYTHON) --version); try make install PYTHON=python3.11" >&2; exit 2; }
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

conformance: install
	$(BIN)/python -m tests.conformance

bench: install
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) store build dist
