"""The libraries whose versions make the bytes of a dataset."""

from importlib.metadata import version

from prep.decoders import require_decoder


def pixel_libraries(decoder: str) -> dict[str, str]:
    """Name to version, of the libraries that decode, scale, encode and write. Raises UsageError where those of the
    decoder are missing."""
    import av

    libraries = {name: version(name) for name in ("av", "numpy", "pyarrow", "simplejpeg")}
    for name in ("libavcodec", "libavformat", "libswscale"):
        libraries[name] = ".".join(map(str, av.library_versions[name]))
    if decoder != "pyav":
        libraries[decoder] = require_decoder(decoder)
    return libraries
