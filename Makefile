# make book: build the book.  make test: unit tests, then every chapter.  `make help` lists the rest.
# Each target sets up what it needs. PYTHON names the interpreter that .venv is made from (3.11 or newer).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.eqbook-ready
PORT ?= 8000
# Processes that run the tests, each file's in one, and the chapters: alone, one keeps fewer than two cores busy.
# The time that an import takes is measured first, with nothing beside it.
TEST_PROCESSES ?= 2
# `make test TESTS=--all`: also the slow tests, and all cases of each.
TESTS ?=

.PHONY: help book test check-pages serve lint lock clean distclean

help:
	@echo "make book         build the book, print where it is"
	@echo "make test         unit tests, then every chapter as a test; TESTS=--all adds the slow ones"
	@echo "make serve        build the book and show it on http://localhost:$(PORT)"
	@echo "make check-pages  build the book, then check its pages in headless Chromium"
	@echo "make lint         ruff, check and format"
	@echo "make lock         resolve constraints.txt anew (needs uv)"
	@echo "make clean        remove _build; make distclean also removes $(VENV)"

# The environment: exactly the versions of constraints.txt, and this package in place.
$(READY): constraints.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "The book needs Python 3.11 or newer; \`$(PYTHON)\` is $$($(PYTHON) --version 2>&1 || echo missing)."; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "Python could not make $(VENV). On Debian and Ubuntu: apt-get install python3-venv"; \
	  rm -rf $(VENV); exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -e .
	@touch $@

book: $(READY)
	$(BIN)/jupyter-book build -n -W --keep-going .
	@echo "The book: $(CURDIR)/_build/html/index.html"

# Both run, also when the first fails; the chapters' outputs go to the cache that `make book` reads.
test: $(READY)
	@status=0; \
	$(BIN)/python -m pytest tests/test_import.py || status=1; \
	$(BIN)/python -m pytest tests --ignore=tests/book/pages --ignore=tests/test_import.py \
	  -n $(TEST_PROCESSES) --dist loadfile $(TESTS) || status=1; \
	$(BIN)/python -m pytest --nbmake book/ -n $(TEST_PROCESSES) --dist worksteal || status=1; \
	exit $$status

check-pages: book
	EQBOOK_PAGES=required $(BIN)/python -m pytest tests/book/pages -n $(TEST_PROCESSES) $(TESTS)

serve: book
	@echo "Open http://localhost:$(PORT); stop with Ctrl-C."
	@$(BIN)/python -m http.server $(PORT) --bind localhost --directory _build/html

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# neural-tangents is locked without its dependencies: they include TensorFlow, which eqbook does not need.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv: $(PYTHON) -m pip install uv"; exit 1; }
	uv pip compile --quiet --universal --upgrade --python-version 3.11 --extra book --extra test \
	  --no-header --no-annotate --no-emit-index-url pyproject.toml --output-file constraints.new
	echo "neural-tangents==0.6.5" >> constraints.new
	LC_ALL=C sort constraints.new > constraints.txt
	rm constraints.new

clean:
	rm -rf _build .pytest_cache .ruff_cache

distclean: clean
	rm -rf $(VENV) eqbook.egg-info
