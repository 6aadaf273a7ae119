"""The two ways to keep frames, one file each: `arrow` shards and `frames` folders."""

STORES = ("arrow", "frames")
