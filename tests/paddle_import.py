"""Paddle for tests: it warns while it is imported, and need not be installed."""

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    paddle = pytest.importorskip("paddle", reason="PaddlePaddle is not installed")

__all__ = ["paddle"]
