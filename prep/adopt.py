"""`prep adopt`: frame folders that others made become a dataset.

No video is decoded and no frame copied: OUT/frames/<video_id>/img_00001.jpg and so on are hard links to the frames,
which take no space, whatever names those have. The tree itself is left as it is. What decoding would have told (codec,
times, ...) is not known: those columns are null, and times are NaN.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from manifests.dataset import open_dataset
from manifests.description import is_dataset
from manifests.errors import UsageError
from manifests.names import escape_name, folder_ids, folders_above
from manifests.records import Source
from manifests.sources import SourceList
from manifests.stores import frames as frame_store
from manifests.wording import quote
from prep import datasets
from prep.classes import impose_order, read_class_file
from prep.datasets.annotation_files import annotation_files
from prep.datasets.folder import class_of, subset_of
from prep.datasets.listed import Line, gather
from prep.datasets.lists import classes_of, line_of, ways_to_name
from prep.datasets.match import match
from prep.datasets.rows import make_rows
from prep.datasets.walk import VideoFile, is_video_name
from prep.extract import Extraction, clear_finished
from prep.frame_folders import find_frame_folders
from prep.frame_lists import read_frame_list
from prep.frame_tree import FrameTree
from prep.from_frames import Order, make_dataset, require_apart
from prep.recipe import AdoptRecipe, Recipe, recipe_of
from prep.run_folder import RunFolder

_LIST_SUFFIXES = (".txt", ".csv", ".tsv", ".list", ".lst")


@dataclass(frozen=True)
class Adoptable:
    """The frame folders as a scan, each a source; `listed` has the number of frames that the lists give for some."""

    scan: datasets.Scan
    listed: Mapping[str, int]


def find_videos(root: Path, lists: Sequence[Path], form: str | None, class_file: Path | None) -> Adoptable:
    """The frame folders under `root`, with classes and subsets by the lists, or where there are none by the folders
    that they lie in, as `--dataset folder` does. Raises UsageError."""
    if _is_prepared(root):
        raise UsageError(
            f"{quote(str(root))} is a prepared dataset already: give the folder of frame folders in it, or pack it"
        )
    tree = find_frame_folders(root)
    found = _by_lists(root, tree.videos, lists, form) if lists else Adoptable(_by_folders(tree.videos), {})
    scan = replace(found.scan, notes=(*tree.notes, *found.scan.notes))
    if class_file is not None:
        scan = impose_order(scan, read_class_file(class_file), class_file)
    return replace(found, scan=scan)


def _is_prepared(root: Path) -> bool:
    try:
        return is_dataset(root)
    except UsageError:
        return False  # the dataset.json of another program, which may lie beside its frames


def _by_folders(videos: Sequence[str]) -> datasets.Scan:
    paths = sorted(map(escape_name, videos))
    ids = folder_ids(paths)
    classes = sorted({name for video_id in ids if (name := class_of(video_id)) is not None})
    labels = {name: label for label, name in enumerate(classes)}
    sources = []
    for path, video_id in zip(paths, ids, strict=True):
        class_name, subset = class_of(video_id), subset_of(video_id)
        sources.append(
            Source(
                video_id=video_id,
                source=path,
                source_bytes=None,
                label=-1 if class_name is None else labels[class_name],
                class_name=class_name,
                subsets=() if subset is None else (subset,),
            )
        )
    return datasets.Scan(dataset="folder", sources=tuple(sources), classes=tuple(classes))


def _by_lists(root: Path, videos: Sequence[str], lists: Sequence[Path], form: str | None) -> Adoptable:
    files = annotation_files(root, lists, (), _is_list, f"a file that ends in one of {', '.join(_LIST_SUFFIXES)}")
    known = ways_to_name(videos)
    readings = [(file, read_frame_list(file, form, root, known)) for file in files]
    names, numbered = classes_of(row for _, reading in readings for row in reading.rows)
    lines = [line_of(file, row, names, root) for file, reading in readings for _, row in reading.rows]
    listed = gather(lines)
    matches, near = _match(videos, list(listed.items))
    if not matches:
        raise UsageError(
            f"no folder under {quote(str(root))} is one that {quote(files[0].name)} names (such as "
            f"{quote(lines[0].name)}): give the folder that its paths are relative to"
        )
    _require_no_frames(set(videos), listed.items.keys() - set(matches.values()), lines)
    classes = list(dict.fromkeys(names.values()))
    labels = {name: label for label, name in enumerate(classes)}
    files_there = [VideoFile(path=path, num_bytes=None) for path in videos]
    scan = datasets.Scan(
        dataset="list",
        sources=make_rows(files_there, listed.items, matches, labels, ids=folder_ids),
        classes=tuple(map(escape_name, classes)),
        notes=tuple(f"read {quote(file.name)} as {reading.shape}" for file, reading in readings),
        num_lines=listed.num_lines,
        near=tuple((escape_name(matches[path]), escape_name(path)) for path in sorted(near)),
        numbered=numbered,
    )
    counts: dict[str, set[int]] = {}
    for line, row in zip(lines, (row for _, reading in readings for _, row in reading.rows), strict=True):
        if row.get("num_frames", "").isdecimal():
            counts.setdefault(line.name, set()).add(int(row["num_frames"]))
    told = {escape_name(path): counts[name] for path, name in matches.items() if name in counts}
    return Adoptable(scan, {path: min(numbers) for path, numbers in told.items() if len(numbers) == 1})


def _require_no_frames(videos: Set[str], missing: Set[str], lines: Iterable[Line]) -> None:
    """Raises UsageError where a listed path that is `missing` lies in one of the frame folders `videos`."""
    for line in lines:
        if line.name in missing and not videos.isdisjoint(folders_above([line.name])):
            raise UsageError(
                f"{quote(line.file)}: {quote(line.name)} is named as a video, but it lies in the frame folder of one: "
                "give a list with one line a video"
            )


def _match(videos: Sequence[str], listed: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """The listed path of each folder, and the folders that were found by less than the path. A listed video file stands
    for the folder that has its name without the suffix."""
    matches, near = match(videos, listed, {})
    found = set(matches.values())
    stems = {name.rpartition(".")[0]: name for name in listed if name not in found and is_video_name(name)}
    more, more_near = match([path for path in videos if path not in matches], stems, {})
    return {**matches, **{path: stems[stem] for path, stem in more.items()}}, near | more_near


def _is_list(path: Path) -> bool:
    return path.suffix.lower() in _LIST_SUFFIXES and path.is_file()


def adopt(root: Path, found: Adoptable, out: Path, *, num_jobs: int, quiet: bool) -> Extraction:
    """Make the dataset, or go on with it, or find that it is done.

    Raises what prep.from_frames raises, and StoreError where no hard links to the frames can be made in OUT.
    """
    require_apart(root, out)
    sources = datasets.source_list(found.scan, root)
    order = Order(
        out=out,
        sources=sources,
        recipe=AdoptRecipe(),
        libraries={},
        frames=FrameTree(sources, found.listed),
        num_jobs=num_jobs,
        quiet=quiet,
        retry_failed=True,
    )
    return make_dataset(order) or clear_finished(RunFolder(out), _require_same(out, sources))


def _require_same(out: Path, sources: SourceList) -> Extraction:
    """Raises UsageError unless the dataset in `out` was adopted from just these folders, with the same labels."""
    with open_dataset(out) as dataset:
        description = dataset.description
        recipe: Recipe = recipe_of(description.recipe)
        if not isinstance(recipe, AdoptRecipe) or recipe.store.format != frame_store.FOLDER:
            raise UsageError(f"{out} is a dataset that was not made by prep adopt: use another --out")
        names = ("source", "video_id", "label", "class_name", "subsets")
        before = dataset.columns(names).to_pylist()
    same = description.classes == sources.classes and len(before) == len(sources.sources)
    if not same or any(
        (source.source, source.video_id, source.label, source.class_name, list(source.subsets)) != tuple(row.values())
        for source, row in zip(sources.sources, before, strict=True)
    ):
        raise UsageError(
            f"{out} was made of other folders, labels or subsets: use another --out, or remove it, which removes "
            "links and no frames"
        )
    return Extraction(description, was_sealed=True)
