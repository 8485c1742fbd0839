# Every target does its own set-up: Python, make and the package registries are all it needs.
PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-peers/bin
# What is installed is what the files of constraints name, checked against their hashes. The package
# itself comes last, built by the hatchling and editables among them. PyTorch alone is not checked: its build for
# processors only, which machines may have at hand, has other hashes than the registry's.
TORCH := torch==2.13.0
PIP := pip install --quiet --no-compile
PINNED := $(PIP) --require-hashes --no-deps --requirement
PACKAGE := $(PIP) --no-deps --no-build-isolation --editable .
# Python compiles a module when it is first imported, and keeps that whatever the shell says;
# compiling all of them beforehand would take as long as unpacking them.
export PYTHONDONTWRITEBYTECODE :=
# Setting up is three things that do not wait for each other: Python, the page, a browser.
MAKEFLAGS += --jobs=3

PAGE := src/vesalius/explorer/page/index.html
NPM := $(shell command -v npm)
NODE_MODULES := frontend/node_modules/.package-lock.json
# What npm runs on the page's source, where there is one.
of_the_page = $(if $(NPM),cd frontend && npm run --silent $(1),@echo "No npm here: $(1) skips the page's source")

.PHONY: demo explore page test test-slow test-peers fuzz lint install bench specimens docs \
	pictures constraints clean

demo: .venv/runtime  ## count a model, look at an equation, take a trained model apart
	$(BIN)/vesalius models
	$(BIN)/vesalius count gpt2 --cost --length 512
	$(BIN)/vesalius equations 28
	$(BIN)/vesalius specimens
	$(BIN)/vesalius tokenize gpt "I knew it was going to rain, but I forgot to take my umbrella."
	$(BIN)/vesalius dissect gpt "He shook his"
	$(BIN)/vesalius evaluate gpt README.md
	$(BIN)/vesalius generate gpt "He shook his" --temperature 0.8 --seed 1
	@echo "To look at all this on a page: make explore"

explore: .venv/runtime page  ## open the explorer
	$(BIN)/vesalius explore

page: $(PAGE)  ## build the explorer's page, which needs Node 20 or newer

test: install $(if $(NPM),page) .venv/browser
	$(call of_the_page,test)
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "not slow"

test-slow: install  ## a hundred kills and whatever else takes minutes
	$(BIN)/python -m pytest -m slow

test-peers: .venv-peers/ready  ## compare with KerasHub, which has an environment of its own
	VESALIUS_PEERS=1 TF_CPP_MIN_LOG_LEVEL=3 $(PEERS)/python -m pytest tests/verification/test_keras.py

MINUTES ?= 3
fuzz: install  ## search at random for what goes wrong: make fuzz MINUTES=60
	$(BIN)/python tests/fuzz --minutes $(MINUTES)

lint: install $(if $(NPM),$(NODE_MODULES))
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(call of_the_page,lint)

bench: install .venv-peers/bench  ## beside peers, in one run; wants a quiet machine
	$(BIN)/python benchmarks/networks.py
	$(BIN)/python benchmarks/training.py
	$(BIN)/python benchmarks/finetuning.py
	$(BIN)/python benchmarks/generation.py --write
	$(BIN)/python benchmarks/explorer.py --write

specimens: install  ## train what ships with the package; hours
	$(BIN)/python recipes/specimens.py

docs: install  ## write anew what is generated: pages, numbers, outputs of examples
	$(BIN)/python docs/generate.py

pictures: install page .venv/browser  ## make the pictures with numbers of specimens anew
	$(BIN)/python docs/pictures.py

install: .venv/development

# Versions stay as they are unless UPGRADE says otherwise: make constraints UPGRADE=--upgrade
constraints: .venv-constraints/ready  ## write the files of constraints anew
	printf "hatchling\neditables\n" | $(COMPILE) - --output-file constraints.txt
	echo $(TORCH) | $(COMPILE) - --extra test --extra lint --constraint constraints.txt \
		$(call BUT,constraints.txt) --output-file constraints-development.txt
	echo $(TORCH) | $(COMPILE) - --extra peers --constraint constraints.txt \
		--constraint constraints-development.txt \
		$(call BUT,constraints.txt) --output-file constraints-peers.txt
	echo $(TORCH) | $(COMPILE) - --extra peers --extra bench --constraint constraints.txt \
		--constraint constraints-development.txt --constraint constraints-peers.txt \
		$(call BUT,constraints.txt constraints-peers.txt) --output-file constraints-bench.txt

UPGRADE ?=
COMPILE = .venv-constraints/bin/uv pip compile --quiet --universal --python-version 3.11 $(UPGRADE) \
	--generate-hashes --no-emit-index-url --no-annotate --custom-compile-command "make constraints" \
	$(addprefix --no-emit-package ,$(WITH_TORCH)) pyproject.toml
# PyTorch, and what the registry's build of it brings along on Linux.
WITH_TORCH := torch triton cuda-bindings cuda-pathfinder cuda-toolkit nvidia-cublas \
	nvidia-cuda-cupti nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cudnn-cu13 nvidia-cufft \
	nvidia-cufile nvidia-curand nvidia-cusolver nvidia-cusparse nvidia-cusparselt-cu13 \
	nvidia-nccl-cu13 nvidia-nvjitlink nvidia-nvshmem-cu13 nvidia-nvtx
# All packages but those of other files.
BUT = $$(sed -n 's/^\([a-z0-9.-]*\)==.*/--no-emit-package \1/p' $(1))

.venv-constraints/ready:
	$(PYTHON) -m venv .venv-constraints
	.venv-constraints/bin/$(PIP) uv==0.13.8
	@touch $@

clean:
	rm -rf .venv .venv-peers .venv-constraints

$(NODE_MODULES): frontend/package-lock.json
	cd frontend && npm ci --no-audit --no-fund
	@touch $@

$(PAGE): $(NODE_MODULES) frontend/index.html frontend/vite.config.ts \
		$(shell find frontend/src frontend/public -type f)
	cd frontend && npm run check && npm run build

# Without PyTorch, which the demo does not need.
.venv/runtime: pyproject.toml constraints.txt
	@echo "Setting up .venv; this takes half a minute"
	$(PYTHON) -m venv .venv
	$(BIN)/$(PINNED) constraints.txt
	$(BIN)/$(PACKAGE)
	@touch $@

# PyTorch last, when all that it needs is there but the CUDA packages of the registry's build.
.venv/development: .venv/runtime constraints-development.txt
	@echo "Adding PyTorch and what development needs; this takes a minute or two"
	$(BIN)/$(PINNED) constraints-development.txt
	$(BIN)/$(PIP) $(TORCH)
	@touch $@

# For the tests of the page: the machine's own Chromium, else Debian's as root, else Playwright's.
FOUND := chromium chromium-browser google-chrome chrome
.venv/chromium: .venv/runtime
	@if [ -z "$$(which $(FOUND) 2>/dev/null)" ] && [ "$$(id -u)" = 0 ] \
			&& command -v apt-get >/dev/null; then \
		echo "Installing Chromium for the tests of the page"; \
		apt-get install -y -qq chromium >/dev/null 2>&1 \
			|| { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } || true; \
	fi
	@touch $@

.venv/browser: .venv/development .venv/chromium
	@[ -n "$$(which $(FOUND) 2>/dev/null)" ] || $(BIN)/playwright install chromium \
		|| echo "No browser could be installed: the tests of the page are skipped"
	@touch $@

# KerasHub brings TensorFlow, which nothing else here should have to load.
.venv-peers/ready: pyproject.toml constraints.txt constraints-peers.txt
	@echo "Setting up .venv-peers with KerasHub and its TensorFlow; this takes a few minutes"
	$(PYTHON) -m venv .venv-peers
	$(PEERS)/$(PINNED) constraints.txt
	$(PEERS)/$(PINNED) constraints-peers.txt
	$(PEERS)/$(PIP) $(TORCH)
	$(PEERS)/$(PACKAGE)
	@touch $@

# llama.cpp is compiled for this machine, which wants a C++ compiler; only the benchmark needs it.
# Its source is checked against its hash; what pip fetches to compile it with is not.
.venv-peers/bench: .venv-peers/ready constraints-bench.txt
	@echo "Adding CTranslate2 and llama.cpp to .venv-peers; compiling takes many minutes"
	CMAKE_ARGS="-DGGML_NATIVE=ON -DLLAVA_BUILD=OFF" $(PEERS)/$(PINNED) constraints-bench.txt
	@touch $@
