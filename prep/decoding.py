"""The videos of an extraction: copied from the dataset before where the plan says so, else decoded."""

from contextlib import suppress
from pathlib import Path

from manifests.errors import DamagedError
from prep.before import Before
from prep.child import Job, Reply
from prep.plan import Plan
from prep.recipe import ExtractRecipe


class VideoFiles:
    """Rows count within `plan.work`, as in prep.carry_out (prep.taking.FrameSource)."""

    def __init__(self, out: Path, plan: Plan, before: Before | None, recipe: ExtractRecipe) -> None:
        self._out = out
        self._sources = plan.work
        self._copied = {position: plan.copied[row] for position, row in enumerate(plan.rows) if row in plan.copied}
        self._before = before
        self._recipe = recipe

    def take(self, row: int, frames: Path, table: Path) -> Reply | Job:
        """Frames of the dataset before that are damaged are decoded again."""
        if self._before is not None and row in self._copied:
            old = self._copied[row]
            table_N = self._before.frame_table(old)
            with suppress(DamagedError):
                return self._before.copy_video(old, table_N, frames, table, self._recipe.store.format)
        source = self._sources.sources[row]
        return Job(
            out=self._out,
            source=self._sources.path_of(source),
            source_bytes=source.source_bytes,
            frames=frames,
            table=table,
            recipe=self._recipe,
        )
