# Every target does its own set-up: Python, make and the package registries are all it needs.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --constraint constraints.txt

.PHONY: demo test lint install docs clean

demo: .venv/runtime  ## count a model, look at an equation
	$(BIN)/vesalius models
	$(BIN)/vesalius count gpt2 --cost --length 512
	$(BIN)/vesalius equations 28

test: install
	$(BIN)/python -m pytest --numprocesses 2

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: install  ## write the generated pages anew
	$(BIN)/python docs/generate.py

install: .venv/development

clean:
	rm -rf .venv

.venv/runtime: pyproject.toml constraints.txt
	@echo "Setting up .venv"
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# PyTorch first and by its pinned version: another would bring gigabytes of CUDA.
.venv/development: pyproject.toml constraints.txt
	@echo "Setting up .venv with everything for development; this takes a few minutes"
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable '.[test,lint]'
	@touch $@ .venv/runtime
