# Two commands: `make demo` and `make test`. Both make the environment .venv first, if it is not there.

PYTHON ?= python3
BIN := .venv/bin
VIDEOS ?= ../shared/data/videos

.PHONY: demo test test-paddle-2 lint outcomes clean

demo: .venv/installed
	$(BIN)/python demo.py build/demo

# A test file on each processor at a time, in the order in which they are named, or in that of their names: the longest
# are in folders that come first.
BY_FILE := -n auto --dist loadfile --no-loadscope-reorder

test: lint
	$(BIN)/pytest $(BY_FILE)

# A short set of tests with the PaddlePaddle that its package index has for GPUs, in an environment of its own.
test-paddle-2: .venv-paddle-2/installed
	.venv-paddle-2/bin/pytest $(BY_FILE) tests/unit/test_optimising.py tests/unit/test_averaging.py tests/unit/test_precision.py \
		tests/unit/test_checkpoint.py tests/unit/test_temporal_shift.py tests/unit/test_loader.py tests/unit/test_device.py \
		'tests/contract/test_parity.py::test_every_case_of_every_model[pptsm]' \
		tests/integration/test_ranks.py::test_two_give_what_one_gives \
		tests/integration/test_train.py::test_all_that_is_drawn_is_drawn_again \
		tests/integration/test_train.py::test_first_weights_from_another_run \
		tests/integration/test_trained.py::test_predictions_equal_the_evaluation \
		tests/integration/test_trained.py::test_an_exported_model_gives_the_scores_of_the_evaluation

lint: .venv/installed-for-tests
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# What becomes of every file of the real clips, beside what must become of it.
outcomes: .venv/installed
	$(BIN)/python tests/corpus.py $(VIDEOS)

clean:
	rm -rf .venv .venv-paddle-2 build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "$(PYTHON) is older than Python 3.11: install a newer one, or name it: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' \
		|| { echo "$(PYTHON) lacks its venv module: install it (Debian: apt-get install python3-venv)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[train]'
	@touch $@

.venv/installed-for-tests: .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[train,test,lint]'
	@touch $@

.venv-paddle-2/installed: pyproject.toml
	$(PYTHON) -m venv .venv-paddle-2
	.venv-paddle-2/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[train,test]' paddlepaddle==2.6.2
	@touch $@
