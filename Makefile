# make demo               set everything up, then speech turns into text before your eyes
# make demo SOURCE=mic    the same from the default microphone
# make demo SCENE=array   two people around a microphone array: who said what, from where
# make test               set everything up, run all tests (TESTS=path and options: only those)
# make lint               formatting, ruff, mypy
# make bench              measure: writes docs/benchmarks (QUICK=1: short, writes nothing)
# make wheel              a package in dist/ with the GPU kernels compiled for all GPUs (needs nvcc, takes minutes)
# make install            into /opt/cosyd, with the systemd unit (DESTDIR=, PREFIX=: see packaging/install.sh)
# make clean              remove what make made; the models stay
#
# PYTHON=/path/to/python3 chooses the interpreter of .venv.

SOURCE ?= file
SCENE ?=
PYTHON ?=
QUICK ?=
PREFIX ?= /opt/cosyd
DESTDIR ?=

BIN := .venv/bin
NEEDS := pyproject.toml setup.py packaging/setup.sh $(wildcard cosyd/ring/*.[ch] cosyd/asr/decoders/*.[ch])
BENCHES := ring frontend asr wer e2e

MAKEFLAGS += --no-print-directory
export PYTHON

.PHONY: demo test lint bench wheel install clean

demo: .venv/.run
	@$(BIN)/cosyd models pull
	@$(BIN)/python -m cosyd.demo --source $(SOURCE) $(if $(SCENE),--scene $(SCENE))

test: .venv/.test
	@$(BIN)/cosyd models pull
	@$(BIN)/cosyd models pull whisper-base
	@$(BIN)/python tests/run.py $(TESTS)

lint: .venv/.lint
	@$(BIN)/ruff format --check --quiet . || { echo "cosyd: not formatted; run: ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

bench: .venv/.test
	@$(BIN)/cosyd models pull
	@for bench in $(BENCHES); do $(BIN)/cosyd bench $$bench $(if $(QUICK),--quick) || exit; done

wheel: .venv/.run
	@COSYD_FATBINS=all $(BIN)/python -m pip wheel --no-deps --wheel-dir dist .

install:
	@DESTDIR="$(DESTDIR)" PREFIX="$(PREFIX)" packaging/install.sh

clean:
	@rm -rf .venv .cache build dist ./*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find cosyd tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -f cosyd/ring/*.so cosyd/asr/decoders/*.so

# One stamp a purpose, made anew when what decides about the installation has changed. What "test" installs
# does for all: a later "run" has nothing to add.
.venv/.run .venv/.lint .venv/.test: .venv/.%: $(NEEDS)
	@if [ -e .venv/.test ] && [ -z "$$(find $(NEEDS) -newer .venv/.test)" ]; then :; else packaging/setup.sh $*; fi
	@touch $@
