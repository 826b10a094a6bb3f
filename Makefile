PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c requirements.lock

.PHONY: figure4 figures tables test fuzz clean
.DELETE_ON_ERROR:

# The three configurations of each family measured, then the figures, in measured/; what is
# committed changes only where a number differs by more than rounding. A finished run is
# left as it is.
RUNS = $(addprefix $(1)/,base instruct icl)
DRAW = $(BIN)/mse-lab figure $(1) --out $(2).png && $(BIN)/mse-lab figure $(1) --out $(2).pdf \
	&& $(BIN)/mse-lab figure $(1) --dark --out $(2)-dark.png

figure4: $(VENV)/installed
	$(BIN)/mse-lab run $(foreach family,tiny lenient worked,$(call RUNS,$(family))) --out measured
	@mkdir -p measured/figures
	$(call DRAW,$(call RUNS,measured/tiny),measured/figures/figure4)
	$(call DRAW,$(call RUNS,measured/worked),measured/figures/worked)
	@$(BIN)/python .ci/compare.py
	@echo 'next: $(BIN)/mse-lab report measured/tiny/base    or $(BIN)/mse-lab --help'

# The committed figures, from the committed tables.
figures: $(VENV)/installed
	$(call DRAW,$(call RUNS,tiny),figures/figure4)
	$(call DRAW,$(call RUNS,worked),figures/worked)
	$(call DRAW,$(call RUNS,smollm2),figures/smollm2)
	$(call DRAW,$(addprefix smollm2/words-,base instruct icl),figures/smollm2-questions)
	$(call DRAW,smollm2/icl --ladder,figures/ladder)
	$(BIN)/python .ci/training_figure.py

# The tables of the pages, from their files, and the outputs of the notebook.
tables: $(VENV)/installed
	$(BIN)/python .ci/tables.py
	$(BIN)/python probes/notebooks/execute.py probes/notebooks/first-look.ipynb

test: $(VENV)/installed-test
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/pre-commit run --all-files
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

# Every door with thousands of damaged inputs; the suite itself tries a few hundred.
fuzz: $(VENV)/installed-test
	FUZZ_CASES=3000 $(BIN)/python -m pytest tests/fuzz

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[measure,math,data,lora]'
	touch $@

$(VENV)/installed-test: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
