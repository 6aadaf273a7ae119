"""The libraries whose versions make the bytes of a dataset."""

from importlib.metadata import version


def pixel_libraries() -> dict[str, str]:
    """Name to version, of the libraries that decode, scale, encode and write."""
    import av

    libraries = {name: version(name) for name in ("av", "numpy", "pyarrow", "simplejpeg")}
    for name in ("libavcodec", "libavformat", "libswscale"):
        libraries[name] = ".".join(map(str, av.library_versions[name]))
    return libraries
