# make run: the shop with failures, proven.  make test: everything that a change must pass.
PYTHON ?= python3
PORT ?= 9092
PURCHASES ?= 5000
ROWS ?= 200000
SEEDS ?= 1-100
INPUTS ?= 500
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Processes that share the tests. The slow ones wait for time-outs, starts and other processes for more than half of their time.
AT_ONCE ?= 3
SLOW_AT_ONCE ?= 3
SHARED := --dist loadgroup --no-loadscope-reorder

# Containers often set it. Whatever a test starts would be compiled anew: a third of a broker's start, half of finding the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run pipeline serve test tests test-fast test-all conformance compatibility mutants kills chaos crash-nightly search fuzz simulate oracle lint generate docs pictures release benchmark soak start-soak clean

run: $(VENV)/.demo
	$(BIN)/ottla demo --port $(PORT) --purchases $(PURCHASES)

# Purchases to invoices and shipments by Spark, audited; on a broker of its own.
pipeline: $(VENV)/.test
	$(BIN)/ottla pipeline demo --rows $(ROWS)

serve: $(VENV)/.demo
	$(BIN)/ottla serve --listen 127.0.0.1:$(PORT)

# Both at the same time: a processor is left by tests that wait.
test: $(VENV)/.test
	$(MAKE) --no-print-directory -j 2 lint tests

tests: $(VENV)/.test
	$(PYTEST) -q -rs -m "not slow" -n $(AT_ONCE) $(SHARED)

test-fast: $(VENV)/.test
	$(PYTEST) -q -m "not wire and not heavy and not slow" -n 2 --dist worksteal

test-all: $(VENV)/.test
	$(PYTEST) -q -rs --durations=60 --durations-min=5 -m "slow and not alone" -n $(SLOW_AT_ONCE) $(SHARED)
	$(PYTEST) -q -rs -m "slow and alone"

# The stock clients' tests, asked of Apache Kafka itself. ORACLE_VERSION=4.3.1 asks another release, here and below.
oracle: $(VENV)/.test
	ORACLE=1 $(PYTEST) -q -rs tests/wire/test_clients.py

# The catalogue of rules against ottla and Apache Kafka; prints the scoreboard, writes docs/conformance.md.
conformance: $(VENV)/.test
	-$(PYTEST) -q -p no:randomly tests -m "entry or transcript" -n $(SLOW_AT_ONCE) $(SHARED) --scoreboard .cache/scoreboard.json
	$(BIN)/python -m tools.conformance .cache/scoreboard.json

# Stock clients, tools and libraries against ottla; writes docs/compatibility.md.
CLIENTS_TESTS := $(addprefix tests/wire/test_,clients.py retries.py consumer_groups.py shop.py pipes.py admin_tools.py \
	admin_surface.py java_admin.py share_groups.py streams.py tools.py mirror.py examples.py mixed_cluster.py mixed_transactions.py) \
	tests/container/test_testcontainers.py
compatibility: $(VENV)/.test
	-$(PYTEST) -q $(CLIENTS_TESTS) -n $(SLOW_AT_ONCE) $(SHARED) --outcomes .cache/outcomes.json
	$(BIN)/python -m tools.compatibility .cache/outcomes.json

# Many more crash states than CI has time for.
crash-nightly: $(VENV)/.test
	CRASH_STATES=50000 $(PYTEST) -q -m slow tests/crash

# The property tests with examples that no run has seen before.
search: $(VENV)/.test
	$(PYTEST) -q -n 2 -m "not wire" --hypothesis-profile=searching tests/broker tests/pipeline tests/scenarios/test_model.py

# Made-up requests against a broker in one process, or with OPTIONS=--sockets against one of its own; a seed does the same each time.
fuzz: $(VENV)/.test
	PYTHONHASHSEED=0 $(BIN)/python -m tests.fuzz --seeds $(SEEDS) --inputs $(INPUTS) $(OPTIONS)

# Whole worlds by seeds: a broker, clients, network and disks under faults, judged; with BROKERS=3 three and their controller
# (docs/simulation.md).
simulate: $(VENV)/.test
	$(BIN)/python -m ottla.simulation --brokers $(BROKERS) --seeds $(SEEDS) --must-reach

# The pipeline's driver killed at thirty random moments, and at every point of a batch on Apache Kafka as well.
kills: $(VENV)/.test
	ORACLE=1 ROUNDS=30 $(PYTEST) -q -m slow tests/pipeline/kills

# Stock clients on a broker that is killed inside commits, stopped and starved; with BROKERS=3 on three that fail in turn. The seed is
# printed, and SEED= runs it again.
KILLS ?= 2000
BROKERS ?= 1
chaos: $(VENV)/.test
	$(BIN)/python -m tests.chaos --brokers $(BROKERS) --kills $(KILLS) --seed "$(SEED)"

# Rules broken on purpose: the scenarios must notice each.
mutants: $(VENV)/.test
	$(PYTEST) -q -m slow tests/mutants

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Messages from their schemas, and the pages that are made of the code. What of docs/conformance.md needs a run stays as it is.
generate: $(VENV)/.test
	$(BIN)/python -m ottla.protocol.codegen
	$(BIN)/python -m tools.conformance
	$(BIN)/python -m tools.compatibility
	$(BIN)/python -m tools.apis
	$(BIN)/python -m tools.settings_page
	$(BIN)/python -m tools.commands_page
	$(BIN)/python -m tools.metrics_page

# The documentation as a site, in .cache/site; a dead link or a page that nothing leads to is an error.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The pictures of docs/console.md, in Debian's Chromium.
pictures: $(VENV)/.test
	$(BIN)/python -m tools.console_pictures

# Builds what is published, checks it, and prints the command that publishes it. Nothing leaves this machine.
release: $(VENV)/.release
	$(BIN)/python -m tools.release

benchmark: $(VENV)/.test
	$(BIN)/python -m benchmarks.compare

# A broker under steady use; its memory must stay what it is.
MINUTES ?= 30
soak: $(VENV)/.test
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

# Starts, one after the other: how long until clients may come, and whether each succeeds.
STARTS ?= 1000
start-soak: $(VENV)/.test
	$(BIN)/python -m benchmarks.starts --count $(STARTS)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("ottla needs Python 3.11 or newer; name one by PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[demo]'
	touch $@

# Neither Spark nor Java.
$(VENV)/.lint: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[lint]'
	touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[docs]'
	touch $@

$(VENV)/.release: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[release]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml
	@echo "Fetching what the tests and the pipeline need into $(VENV): about 0.5 GB the first time, most of it Spark"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/.demo $(VENV)/.docs $(VENV)/.lint $(VENV)/.release

clean:
	rm -rf $(VENV) .ottla .cache build *.egg-info
