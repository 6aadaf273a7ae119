"""The rows of an extraction whose outcome is known, kept until their group is complete and committed."""

from collections import Counter
from collections.abc import Mapping, Sequence

from manifests.records import Source
from prep.commit import commit_group
from prep.journal import Entry
from prep.run_folder import RunFolder


class Settled:
    """`groups` are the rows of each group; `finished` counts, of each group that is committed already, its ok videos
    (as "ok") and its failures by kind."""

    def __init__(
        self,
        run: RunFolder,
        store: str,
        sources: Sequence[Source],
        groups: Sequence[range],
        finished: Mapping[int, Counter[str]],
    ) -> None:
        self._run = run
        self._store = store
        self._sources = sources
        self._groups = groups
        self._finished = set(finished)
        self._waiting: dict[int, dict[int, Entry]] = {}
        self.failures: Counter[str] = sum(finished.values(), Counter())
        self.num_ok = self.failures.pop("ok", 0)

    def add(self, entry: Entry) -> None:
        """Take an outcome; commit its group if that completes it. Raises StoreError."""
        group = entry.row // len(self._groups[0])
        if group in self._finished:
            return
        self.num_ok += entry.outcome.status == "ok"
        self.failures.update([entry.outcome.failure] if entry.outcome.failure else [])
        waiting = self._waiting.setdefault(group, {})
        waiting[entry.row] = entry
        rows = self._groups[group]
        if len(waiting) == len(rows):
            sources, entries = [self._sources[row] for row in rows], [waiting[row] for row in rows]
            commit_group(self._run, self._store, group, sources, entries)
            self._finished.add(group)
            del self._waiting[group]

    def rows_left(self) -> list[int]:
        """The rows that are still to be decoded, in order."""
        return [
            row
            for group, rows in enumerate(self._groups)
            if group not in self._finished
            for row in rows
            if row not in self._waiting.get(group, {})
        ]
