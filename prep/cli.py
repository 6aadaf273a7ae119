"""The command line of `prep`: which commands and flags there are."""

import argparse

from manifests.command import add_command, make_parser, path_argument, run_command
from manifests.lists import FORMATS as LIST_FORMATS
from manifests.manifest import FORMAT_VERSION
from manifests.stores import STORES
from prep import __version__, commands, extract_command, frames_commands
from prep.datasets import DATASETS
from prep.decoders import DECODERS
from prep.frame_lists import FORMATS


def main() -> int:
    """Run one command and return its exit code."""
    return run_command(build_parser())


def build_parser() -> argparse.ArgumentParser:
    """All commands and flags."""
    parser = make_parser(
        "prep",
        "Turn a folder of videos into a verified, training-ready dataset of JPEG frames.",
        f"prep {__version__}, format version {FORMAT_VERSION}",
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    scan = add_command(
        subparsers, "scan", commands.scan, "list the videos of a folder with classes and subsets, without decoding any"
    )
    scan.add_argument("dir", type=path_argument, metavar="DIR", help="the folder of videos")
    _add_scan_flags(scan)
    scan.add_argument("--out", type=path_argument, required=True, metavar="FILE", help="the sources.parquet to write")

    extract = add_command(
        subparsers, "extract", extract_command.run, "decode videos into a prepared dataset, or resume that"
    )
    extract.add_argument(
        "source", type=path_argument, metavar="DIR|sources.parquet", help="a folder, or what scan wrote"
    )
    extract.add_argument("--out", type=path_argument, required=True, metavar="OUT", help="the folder of the dataset")
    _add_scan_flags(extract)
    extract.add_argument(
        "--root", type=path_argument, metavar="DIR", help="where the videos of sources.parquet lie now"
    )
    extract.add_argument("--store", choices=STORES, help="short for --set store.format=... (default: arrow)")
    extract.add_argument(
        "--decoder", choices=("auto", *DECODERS), help="short for --set decoder=... (default: auto, which is pyav)"
    )
    extract.add_argument("--recipe", type=path_argument, metavar="FILE", help="a TOML file with recipe keys")
    extract.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a recipe key; may be repeated"
    )
    extract.add_argument(
        "--jobs", type=int, metavar="N", help="videos decoded at a time (default: the processors this process may use)"
    )

    again = extract.add_mutually_exclusive_group()
    again.add_argument(
        "--retry",
        metavar="WHAT",
        help="do some of a finished dataset again: failed, failed:KIND, damaged (as verify --deep finds), "
        "or changed (other bytes than before)",
    )
    again.add_argument(
        "--update", action="store_true", help="take new, changed and removed videos over into a finished dataset"
    )
    extract.add_argument(
        "--max-failures", metavar="N|P%", help="stop once more videos than this have failed (default: no limit)"
    )
    extract.add_argument("--limit", type=_positive, metavar="N", help="only the first N videos")
    extract.add_argument(
        "--dry-run", action="store_true", help="say what it would take, by a sample of the videos, and write nothing"
    )
    extract.add_argument(
        "--force",
        action="store_true",
        help="begin even where the disk seems too small, where --update would remove most videos, or where another "
        "update was begun, which is dropped",
    )

    adopt = add_command(
        subparsers, "adopt", frames_commands.adopt, "make a dataset of frame folders that others made, or resume that"
    )
    adopt.add_argument("dir", type=path_argument, metavar="FRAMES_DIR", help="the folder of frame folders")
    adopt.add_argument(
        "--list",
        type=path_argument,
        action="append",
        default=[],
        metavar="FILE",
        help="a list of the folders with labels; may be repeated (default: classes are folders)",
    )
    adopt.add_argument("--format", choices=FORMATS, help="how the lists are written (default: found out)")
    adopt.add_argument("--classes", type=path_argument, metavar="FILE", help="the class order, a name a line or JSON")
    adopt.add_argument(
        "--out", type=path_argument, required=True, metavar="OUT", help="the dataset, on the same file system"
    )

    pack = add_command(
        subparsers, "pack", frames_commands.pack, "put the frames of a dataset as they are into Arrow shards, or resume"
    )
    pack.add_argument("dir", type=path_argument, metavar="OUT", help="the folder of a finished dataset")
    pack.add_argument(
        "--out", type=path_argument, required=True, metavar="OUT2", help="the folder of the dataset to make"
    )
    pack.add_argument("--subset", default="all", metavar="NAME", help="only the videos of this one (default: all)")

    verify = add_command(
        subparsers, "verify", commands.verify, "check that the frames of a dataset are what its manifest says"
    )
    verify.add_argument("out", type=path_argument, metavar="OUT", help="the folder of the dataset")
    verify.add_argument("--deep", action="store_true", help="read, compare and decode every frame")

    report = add_command(subparsers, "report", commands.report, "say what a dataset holds and which videos failed")
    report.add_argument("out", type=path_argument, metavar="OUT", help="the folder of the dataset")

    sheet = add_command(
        subparsers, "sheet", commands.sheet, "draw a contact sheet of a prepared video, with frame numbers and times"
    )
    sheet.add_argument("out_folder", type=path_argument, metavar="OUT", help="the folder of the dataset")
    sheet.add_argument("video_id", metavar="VIDEO_ID", help="a video_id of its manifest")
    sheet.add_argument(
        "--out", type=path_argument, required=True, metavar="FILE", help="the picture to write: .png, .jpg or .jpeg"
    )

    bench = add_command(
        subparsers,
        "bench",
        commands.bench,
        "measure what decoding, scaling, encoding and storing the videos of a folder costs",
    )
    bench.add_argument("dir", type=path_argument, metavar="DIR", help="the folder of videos, of which some are used")
    bench.add_argument(
        "--decoder", choices=("all", *DECODERS), default=DECODERS[0], help=f"which to measure (default: {DECODERS[0]})"
    )
    bench.add_argument(
        "--jobs", default="1", metavar="N[,N]...", help="decoding processes of the extractions (default: 1)"
    )
    bench.add_argument("--seconds", type=float, default=120, metavar="S", help="about so long (default: 120)")
    bench.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="a recipe key, such as frames.quality=95"
    )

    export = add_command(
        subparsers,
        "export",
        commands.export,
        "list the frame folders of a dataset, or its videos, as another project reads them",
    )
    export.add_argument("dataset", type=path_argument, metavar="OUT", help="the folder of the dataset")
    export.add_argument("--format", choices=LIST_FORMATS, required=True, help="the project that is to read the list")
    export.add_argument("--subset", default="all", metavar="NAME", help="(default: all)")
    export.add_argument(
        "--videos", type=path_argument, metavar="DIR", help="list the source videos, which lie in DIR, not the frames"
    )
    export.add_argument(
        "--link", type=path_argument, metavar="DIR", help="list links with plain names, and make them in DIR"
    )
    export.add_argument("--out", type=path_argument, required=True, metavar="FILE", help="the list to write")

    synth = add_command(
        subparsers, "synth", commands.synth, "draw a UCF-101-shaped set of small videos whose classes differ in motion"
    )
    synth.add_argument("dir", type=path_argument, metavar="DIR", help="a folder that is new or empty")
    synth.add_argument("--classes", type=int, default=4, metavar="N", help="an even number (default: 4)")
    synth.add_argument("--videos-per-class", type=int, default=40, metavar="N", help="(default: 40)")
    synth.add_argument("--seed", type=int, default=0, metavar="S", help="same seed, same videos (default: 0)")
    return parser


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a whole number of at least 1, not {text!r}")
    return int(text)


def _add_scan_flags(parser: argparse.ArgumentParser) -> None:
    """How a folder is to be read: the flags of `prep.scan.FLAGS`."""
    parser.add_argument("--dataset", choices=DATASETS, help="how DIR is laid out (default: folder)")
    parser.add_argument(
        "--annotations",
        type=path_argument,
        action="append",
        default=[],
        metavar="PATH",
        help="the dataset's list files or their folder; may be repeated (default: looked for beside the videos)",
    )
    parser.add_argument(
        "--separator", metavar="NAME", help="of lists: comma, tab, semicolon or blank (default: found out)"
    )
    parser.add_argument(
        "--classes",
        type=path_argument,
        metavar="FILE",
        help="the class order, a name a line or JSON",
    )
    parser.add_argument(
        "--split", metavar="SHARES", help="make subsets train,val or train,val,test, such as 0.8,0.1,0.1"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="of --split: same seed, same subsets (default: 0)")
    parser.add_argument(
        "--group", metavar="REGEX", help="of --split: keep videos together in whose path it finds the same"
    )
