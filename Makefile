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
# Processes that share the tests. Those with brokers wait for more than half of their time.
AT_ONCE ?= 3
# The same for make test-all, whose tests wait longer.
FULL_AT_ONCE ?= 5
# Processes that keep the machine busy during the tests, to show that no result depends on its speed: make test LOAD=2
LOAD ?= 0
TESTS = $(BIN)/python -m tools.test_run --load $(LOAD)
SHARED := --dist loadgroup --no-loadscope-reorder

# Containers often set it. Whatever a test starts would be compiled anew: a third of a broker's start, half of finding the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run pipeline serve check test test-all nightly nightly-tests campaigns tests-check tests-smoke conformance compatibility spark-matrix mutants kills chaos crash-nightly search fuzz simulate oracle lint generate docs pictures release benchmark soak start-soak clean

run: $(VENV)/.demo
	$(BIN)/ottla demo --port $(PORT) --purchases $(PURCHASES)

# Purchases to invoices and shipments by Spark, audited; on a broker of its own.
pipeline: $(VENV)/.full
	$(BIN)/ottla pipeline demo --rows $(ROWS)

serve: $(VENV)/.demo
	$(BIN)/ottla serve --listen 127.0.0.1:$(PORT)

# The levels of the tests: CONTRIBUTING.md. Lint and tests run at the same time.
check: $(VENV)/.check
	$(MAKE) --no-print-directory -j 2 lint tests-check

test: $(VENV)/.test
	$(MAKE) --no-print-directory -j 2 lint tests-smoke

test-all: $(VENV)/.full
	$(TESTS) full --at-once $(FULL_AT_ONCE) --budgets --durations .cache/durations-full.json

# .github/workflows/nightly.yml runs the tests and each campaign on a machine of its own.
nightly:
	$(MAKE) --no-print-directory nightly-tests
	$(MAKE) --no-print-directory campaigns

nightly-tests: $(VENV)/.full
	$(TESTS) check,smoke,full,nightly --at-once $(AT_ONCE) --durations .cache/durations-nightly.json

campaigns: $(VENV)/.full
	$(MAKE) --no-print-directory crash-nightly
	$(MAKE) --no-print-directory search
	$(MAKE) --no-print-directory chaos
	$(MAKE) --no-print-directory chaos KILLS=200 BROKERS=3
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN="--under kafka"
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN="--with kafka"
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN="--grow"
	$(MAKE) --no-print-directory chaos KILLS=200 BROKERS=9 CAMPAIGN="--partitions 1000"
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN="--unclean off"
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN="--unclean on"
	$(MAKE) --no-print-directory chaos KILLS=200 CAMPAIGN=--share
	$(MAKE) --no-print-directory simulate SEEDS=1-5000
	$(MAKE) --no-print-directory simulate SEEDS=1-1000 BROKERS=3
	$(MAKE) --no-print-directory fuzz SEEDS=1-1000

tests-check: $(VENV)/.check
	$(TESTS) check --at-once 2 --durations .cache/durations-check.json

tests-smoke: $(VENV)/.test
	$(TESTS) check,smoke --at-once $(AT_ONCE) --durations .cache/durations-test.json

# The stock clients' tests, asked of Apache Kafka itself. ORACLE_VERSION=4.3.1 asks another release, here and below.
oracle: $(VENV)/.full
	ORACLE=1 $(PYTEST) -q -rs tests/wire/test_clients.py

# The catalogue of rules against ottla and Apache Kafka; prints the scoreboard, writes docs/conformance.md. PARTS=T,V runs only these
# parts of docs/rules.md, and keeps the figures of the others.
conformance: $(VENV)/.full
	-$(PYTEST) -q -p no:randomly tests -m "entry or transcript" -n $(AT_ONCE) $(SHARED) --scoreboard .cache/scoreboard.json $(if $(PARTS),--parts $(PARTS))
	$(BIN)/python -m tools.conformance .cache/scoreboard.json $(if $(PARTS),--parts $(PARTS))

# Stock clients, tools and libraries against ottla; writes docs/compatibility.md.
CLIENTS_TESTS := $(addprefix tests/wire/test_,clients.py retries.py consumer_groups.py shop.py pipes.py admin_tools.py \
	admin_surface.py java_admin.py share_groups.py streams.py tools.py mirror.py examples.py mixed_cluster.py mixed_transactions.py \
	secured_programs.py reauthentication.py tls_listeners.py) \
	tests/container/test_testcontainers.py
compatibility: $(VENV)/.full
	-$(PYTEST) -q $(CLIENTS_TESTS) -n $(AT_ONCE) $(SHARED) --results .cache/results.json
	$(BIN)/python -m tools.compatibility .cache/results.json

# A stream on each version of Spark, killed and repeated; writes the matrix in docs/spark.md. OPTIONS="--version 4.0 --way local".
spark-matrix: $(VENV)/.full
	$(BIN)/python -m tools.spark_matrix $(OPTIONS)

# Many more crash states than CI has time for.
crash-nightly: $(VENV)/.full
	CRASH_STATES=50000 $(PYTEST) -q tests/crash

# The property tests with examples that no run has seen before.
search: $(VENV)/.full
	$(PYTEST) -q -n 2 -m "not wire" --hypothesis-profile=searching tests/broker tests/pipeline tests/scenarios/test_model.py

# Made-up requests against a broker in one process, or with OPTIONS=--sockets against one of its own; a seed does the same each time.
fuzz: $(VENV)/.full
	PYTHONHASHSEED=0 $(BIN)/python -m tests.fuzz --seeds $(SEEDS) --inputs $(INPUTS) $(OPTIONS)

# Whole worlds by seeds: a broker, clients, network and disks under faults, judged; with BROKERS=3 three and their controller
# (docs/simulation.md).
simulate: $(VENV)/.full
	$(BIN)/python -m ottla.simulation --brokers $(BROKERS) --seeds $(SEEDS) --must-reach

# The pipeline's driver killed at thirty random moments, and at every point of a batch on Apache Kafka as well.
kills: $(VENV)/.full
	ORACLE=1 ROUNDS=30 $(PYTEST) -q tests/pipeline/kills

# Stock clients on a broker that is killed inside commits, stopped and starved; with BROKERS=3 on three that fail in turn. The seed is
# printed, and SEED= runs it again. CAMPAIGN="--under kafka" has a controller of Apache Kafka, CAMPAIGN="--with kafka" one broker of it.
# CAMPAIGN="--grow" has one broker that becomes three, BROKERS=9 CAMPAIGN="--partitions 1000" nine with so many partitions,
# CAMPAIGN="--unclean off" and "--unclean on" failures of last in-sync replicas, CAMPAIGN=--share share groups.
KILLS ?= 2000
BROKERS ?= 1
chaos: $(VENV)/.full
	$(BIN)/python -m tests.chaos --brokers $(BROKERS) --kills $(KILLS) --seed "$(SEED)" $(CAMPAIGN)

# Rules broken on purpose: the scenarios must notice each.
mutants: $(VENV)/.full
	$(PYTEST) -q tests/mutants

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# Messages from their schemas, and the pages that are made of the code. What of docs/conformance.md needs a run stays as it is.
generate: $(VENV)/.full
	$(BIN)/python -m ottla.protocol.codegen
	$(BIN)/python -m tools.conformance
	$(BIN)/python -m tools.compatibility
	$(BIN)/python -m tools.apis
	$(BIN)/python -m tools.settings_page
	$(BIN)/python -m tools.commands_page
	$(BIN)/python -m tools.metrics_page

# The documentation as a site, in .cache/docs/site; a dead link or anchor is an error.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.docs_site

# The pictures of docs/console.md, in Debian's Chromium.
pictures: $(VENV)/.full
	$(BIN)/python -m tools.console_pictures

# Builds what is published, checks it, and prints the command that publishes it. Nothing leaves this machine.
release: $(VENV)/.release
	$(BIN)/python -m tools.release

benchmark: $(VENV)/.full
	$(BIN)/python -m benchmarks.compare

# A broker under steady use; its memory must stay what it is.
MINUTES ?= 30
soak: $(VENV)/.full
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES)

# Starts, one after the other: how long until clients may come, and whether each succeeds.
STARTS ?= 1000
start-soak: $(VENV)/.full
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

$(VENV)/.check: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[check]'
	touch $@ $(VENV)/.lint $(VENV)/.demo

# Spark is of use only with a Java: without one its tests are skipped, and named at the end of the run.
$(VENV)/.test: $(VENV)/.check
	@if $(BIN)/python -m tools.kafka java; then echo "Installing Spark into $(VENV): 0.4 GB the first time"; \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'; fi
	touch $@

$(VENV)/.full: $(VENV)/.check
	@echo "Installing Spark, a Java and the documentation's tools into $(VENV): 0.5 GB the first time"
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[full]'
	touch $@ $(VENV)/.test $(VENV)/.docs $(VENV)/.release

clean:
	rm -rf $(VENV) .ottla .cache build *.egg-info
