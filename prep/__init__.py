"""Makes a prepared dataset: scan, extract, verify, report, synth."""

from importlib.metadata import version

__version__ = version("decode-once")
