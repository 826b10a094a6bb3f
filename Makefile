PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c requirements.lock

.PHONY: figure4 test fuzz bench clean
.DELETE_ON_ERROR:

# The three configurations of each family measured, then the figures. A finished run is
# left as it is.
FAMILY = $(addprefix $(1)/,base instruct icl)
FAMILIES := $(foreach family,tiny lenient worked,$(call FAMILY,$(family)))

figure4: $(VENV)/installed
	$(BIN)/mse-lab run $(FAMILIES)
	$(BIN)/mse-lab figure
	for suffix in png pdf; do \
		$(BIN)/mse-lab figure $(call FAMILY,worked) --out figures/worked.$$suffix || exit 1; \
	done
	$(BIN)/python .ci/dark.py worked
	@$(BIN)/python .ci/compare.py
	@echo 'next: $(BIN)/mse-lab advise tiny/base    or . $(BIN)/activate, then mse-lab --help'

test: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile

# Every door with thousands of damaged inputs; the suite itself tries a few hundred.
fuzz: $(VENV)/installed-test
	FUZZ_CASES=3000 $(BIN)/python -m pytest tests/fuzz

# Speed beside the obvious loop and one plain pass, half an hour; QUICK=1 takes a minute.
bench: $(VENV)/installed-bench
	$(BIN)/python tests/benchmarks/speed.py $(if $(QUICK),--quick)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[measure,math,data,lora,completion]'
	touch $@

$(VENV)/installed-test: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	touch $@

$(VENV)/installed-bench: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[bench]'
	touch $@

clean:
	rm -rf $(VENV)
