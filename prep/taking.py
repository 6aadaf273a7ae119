"""Videos whose frames may be there already: in the dataset before, in one that is packed, in a tree that is adopted."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from prep.child import Job, Reply


class FrameSource(Protocol):
    """Where the frames of a run come from: prep.decoding.VideoFiles, prep.pack.Packed, prep.frame_tree.FrameTree."""

    def take(self, row: int, frames: Path, table: Path) -> Reply | Job:
        """Put the frames of a row and their table into the spool, as a decoding process does, or tell what one has to
        do. Used by several threads. Raises Error where the run cannot go on."""
        ...


@dataclass(frozen=True)
class Take:
    """One video of a source of frames, and where its frames and their table are to be written."""

    source: FrameSource
    row: int
    frames: Path
    table: Path

    def take(self) -> Reply | Job:
        return self.source.take(self.row, self.frames, self.table)
