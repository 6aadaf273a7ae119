"""What a prepared dataset is: its records, files and formats. `open_dataset` reads one."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manifests.dataset import Dataset, open_dataset

__all__ = ["Dataset", "open_dataset"]


def __getattr__(name: str) -> Any:
    """Imports what it takes when it is asked for: the programs set their signal handlers before that."""
    if name in __all__:
        from manifests import dataset

        return getattr(dataset, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
