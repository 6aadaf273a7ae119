"""Tables of measurements, one file each, which has `run(arguments)`."""

TABLES = ("ops",)
