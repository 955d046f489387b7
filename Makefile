# Every command first installs what it needs into .venv, from the locked versions in requirements/. `make run` installs only what a
# broker needs; all other commands also install Spark and the tools for tests and checks. A stamp file marks each finished step. make
# repeats a step when a file that it depends on is newer than its stamp.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
UV     := $(VENV)/.uv
BUILT  := $(VENV)/.built
READY  := $(VENV)/.ready
TWINS  := hatch_build.py $(wildcard src/skyrocket/compiled/*.pyx src/skyrocket/compiled/*.pxi src/skyrocket/compiled/*.h)
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# uv takes a quarter of pip's time. Where uv is missing or fails, for example behind a mirror that only pip knows, pip installs.
install = $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) || $(PIP) $(1)
# Tests start hundreds of Python processes. Each would compile the same modules again where the environment forbids to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE
COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --python-version 3.11 \
  --custom-compile-command "make lock"

.DEFAULT_GOAL := help
.PHONY: help setup run test durations pure again check interop fuzz sanitize crash chaos failover soak sim spark-crash pipeline-crash pipeline-large bench bench-quick bench-parts reference lock clean

help:            ## list the commands
	@grep -E '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 20

$(UV): requirements/uv.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skyrocket needs Python 3.11 or later. Choose one with: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	-$(PIP) --only-binary :all: --require-hashes -r $<
	@touch $@

$(BUILT): $(UV) requirements/run.txt pyproject.toml $(TWINS)
	$(call install,--require-hashes -r requirements/run.txt)
	$(call install,--no-deps --no-build-isolation -e .)
	$(BIN)/python -m compileall -q -j 0 src
	@touch $@

$(READY): requirements/dev.txt tools/spark_bytecode.py $(UV) | $(BUILT)
	$(call install,--require-hashes -r $<)
	$(BIN)/python -m tools.spark_bytecode
	@touch $@

setup: $(READY)  ## install everything for tests, checks and Spark into .venv

run: $(BUILT)    ## start a nameserver and a broker on loopback, until Ctrl-C
	@exec $(BIN)/skyrocket run $(ARGS)

test: $(READY)   ## run every test; tests that start Apache RocketMQ need Java
	$(BIN)/python -m pytest -n 5 --dist loadfile $(ARGS)

durations: $(READY)  ## run every test and write tests/durations.txt, which orders the tests of make test
	SKYROCKET_WRITE_DURATIONS=1 $(BIN)/python -m pytest -n 5 --dist loadfile

pure: $(READY)   ## run every test without the compiled twins, as where no C compiler is
	SKYROCKET_PURE=1 $(BIN)/python -m pytest -n 5 --dist loadfile $(ARGS)

again: $(READY)  ## run the tests that failed in the last run, one after another
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none

check: $(READY)  ## run ruff, mypy and the tests of the project's own rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/house

interop: $(READY)  ## run only the tests that start Apache RocketMQ's own code
	SKYROCKET_BENCHMARK_S=8 $(BIN)/python -m pytest -m interop

fuzz: $(READY)   ## decode one million mutated frames (make test: 50,000)
	SKYROCKET_FUZZ_FRAMES=1000000 $(BIN)/python -m pytest -n 2 tests/fuzz

sanitize: $(READY)  ## run the compiled twins on mutated frames and hostile store files, under AddressSanitizer and UBSan
	$(BIN)/python hatch_build.py --sanitize
	LD_PRELOAD=$$($(CC) -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc \
	  $(BIN)/python -m pytest -q tests/fuzz/test_twins.py tests/fuzz/test_hostile_stores.py tests/property/test_twins.py tests/property/test_end_transaction_twins.py \
	    tests/property/test_pull_twins.py tests/unit/net/test_gathered_write.py tests/property/test_pull_response_twins.py tests/property/test_row_twins.py \
	    tests/unit/store/read/test_queue_run.py; \
	  status=$$?; rm src/skyrocket/compiled/*.so; $(BIN)/python hatch_build.py && exit $$status

crash: $(READY)  ## lose sectors 2,000 times, flip 5,000 bits, let every file operation fail, end and kill brokers 340 times (make test: a part)
	SKYROCKET_CRASH_DRAWS=2000 SKYROCKET_FLIPS=5000 SKYROCKET_HAND_OVER_RUNS=200 SKYROCKET_FAILING_IO_STEP=1 \
	SKYROCKET_KILLS=100 SKYROCKET_BROKER_KILLS=30 SKYROCKET_TRANSACTION_KILLS=12 \
	  $(BIN)/python -m pytest -n 3 --dist loadfile tests/crash/test_lost_sectors.py tests/crash/test_flipped_bits.py \
	  tests/crash/test_ledger_lost_sectors.py tests/crash/test_ledger_flipped_bits.py tests/crash/test_failing_io.py \
	  tests/crash/test_hand_over.py tests/crash/test_kill9.py tests/crash/test_broker_kill9.py tests/crash/test_transaction_kill9.py

chaos: $(READY)  ## kill servers under load for a minute (make test: some seconds)
	SKYROCKET_CHAOS_S=60 $(BIN)/python -m pytest -rP tests/client/test_chaos.py

failover: $(READY)  ## kill leaders of DLedger groups for two minutes (KILLS_S=120), and masters at 20 points, and report (12 minutes; make test: a sample)
	SKYROCKET_FAILOVER_S=$(or $(KILLS_S),120) SKYROCKET_FAILOVER_ROUNDS=3 SKYROCKET_TAKE_OVERS=20 $(BIN)/python -m pytest -q $(ARGS) \
	  tests/failover "tests/crash/test_replication_kill9.py::test_a_slave_that_takes_over_has_everything_that_the_sync_master_has_acknowledged[SYNC_FLUSH]"

soak: $(READY)   ## run every workload and every fault at once for twenty minutes, and report (make test: 30 seconds)
	$(BIN)/python -m tests.soak --seconds 1200 $(ARGS)

sim: $(READY)    ## simulate SEEDS=10000 DLedger groups under faults, and a tenth as many with the real store; SKYROCKET_SIM_SEED=n replays one
	$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),10000) $(ARGS)

spark-crash: $(READY)  ## kill Spark's driver, its workers and the broker twenty times each (make test: once)
	SKYROCKET_SPARK_CRASHES=20 $(BIN)/python -m pytest -rP tests/spark/test_source_crash.py tests/spark/test_sink_crash.py

pipeline-crash: $(READY)  ## kill drivers, workers and executors of archive, replay, table and drain, and the broker, twenty times each (make test: once, a drain three times)
	SKYROCKET_PIPELINE_KILLS=20 $(BIN)/python -m pytest -v -rP -n 3 --dist worksteal tests/spark/pipelines/test_pipeline_kills.py tests/spark/pipelines/test_table_kills.py tests/spark/pipelines/test_drain_kills.py

pipeline-large: $(READY)  ## run every job with a million messages (make test: 20,000)
	SKYROCKET_PIPELINE_MESSAGES=1000000 $(BIN)/python -m pytest -rP tests/spark/pipelines/test_large_run.py

bench: $(READY)  ## measure our broker, Apache's and Kafka in turns (18 minutes), and write docs/benchmarks.md
	$(BIN)/python -m bench.suite full $(ARGS)

bench-quick: $(READY)  ## compare our broker with Apache's, in less than three minutes; fails when a ratio is a third worse than bench/expected.json
	$(BIN)/python -m bench.suite quick $(ARGS)

bench-parts: $(READY)  ## measure single parts: protocol, store, client, timers, filters, Spark, pipelines (ARGS="store client" for some)
	$(BIN)/python -m bench $(ARGS)

reference: $(READY)  ## rewrite docs/client-reference.md from the source
	$(BIN)/python -m tools.client_reference

lock: $(BUILT)   ## update the locked versions in requirements/
	$(COMPILE) --group uv --output-file requirements/uv.txt
	$(COMPILE) --extra fast --extra console --group run --output-file requirements/run.txt pyproject.toml
	$(COMPILE) --extra fast --extra console --group dev --constraints requirements/run.txt --output-file requirements/dev.txt pyproject.toml
	$(COMPILE) --group bench --constraints requirements/dev.txt --output-file requirements/bench.txt
	$(COMPILE) --group bench-connector --output-file requirements/bench-connector.txt

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis
