PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c requirements.lock

.PHONY: figure4 test clean
.DELETE_ON_ERROR:

# The three tiny configurations measured, then the figure. A finished run is left as it is.
figure4: $(VENV)/installed
	$(BIN)/python run_mse.py run tiny/base tiny/instruct tiny/icl
	$(BIN)/python run_mse.py figure

test: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e .
	touch $@

$(VENV)/installed-test: pyproject.toml requirements.lock | $(VENV)/bin/python
	$(PIP) -e '.[test]'
	touch $@

clean:
	rm -rf $(VENV)
