"""Which of the user's videos are measured, and a folder in which all that is written is gone afterwards."""

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import av
import numpy as np

from manifests.atomic import disk_errors
from manifests.errors import StoreError
from manifests.program import STOPPING_SIGNALS
from manifests.records import Source
from manifests.sources import SourceList


def repeated(sources: SourceList, chosen: Sequence[Source], num_copies: int) -> SourceList:
    """`chosen` so many times over, as an extraction takes them: every copy is a video of its own."""
    copies = [
        replace(source, video_id=f"{number}/{source.video_id}") for number in range(num_copies) for source in chosen
    ]
    return replace(sources, sources=tuple(copies))


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """As tempfile chooses it. It goes whatever ends the block, and no signal stops that. Raises StoreError."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="decode-once-bench-")).absolute()
    except OSError as error:
        raise StoreError(f"no temporary folder: {error.strerror}; set TMPDIR to a folder with room") from error
    try:
        yield folder
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING_SIGNALS)
        shutil.rmtree(folder, ignore_errors=True)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING_SIGNALS)


def draw_tiny(folder: Path, num_clips: int) -> SourceList:
    """Clips of two small pictures: extracting these costs what any extraction costs before its first frame."""
    with disk_errors(folder):
        folder.mkdir()
        paths = [folder / f"{number}.avi" for number in range(num_clips)]
        for path in paths:
            with av.open(str(path), "w") as container:
                stream = container.add_stream("mpeg4", 25)
                stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
                for level in (40, 200):
                    picture_HWC = np.full((32, 32, 3), level, np.uint8)
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(picture_HWC, format="rgb24")))
                container.mux(stream.encode(None))
        sources = tuple(
            Source(video_id=path.stem, source=path.name, source_bytes=os.path.getsize(path)) for path in paths
        )
    return SourceList(dataset="folder", root=folder, classes=(), sources=sources)
