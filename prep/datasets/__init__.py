"""The datasets that `prep scan` understands, one file each with one function `scan`."""
