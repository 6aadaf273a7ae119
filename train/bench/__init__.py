"""Tables of measurements, one file each, which has `run(arguments)`."""

TABLES = ("formats", "decoders", "workers", "loader", "ops", "multigrid")
