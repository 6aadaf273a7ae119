"""What a prepared dataset is: its records, files and formats. `open_dataset` reads one."""

from manifests.dataset import Dataset, open_dataset

__all__ = ["Dataset", "open_dataset"]
