"""JPEG from YUV planes.

Arrays: y_HW, u_hw, v_hw uint8, full-range BT.601 4:2:0, see prep.decoders.interface.
"""

import simplejpeg

from prep.decoders.interface import Planes


def encode_jpeg(planes: Planes, quality: int) -> bytes:
    """A JFIF image with 4:2:0 chroma; `quality` in [1, 100] as libjpeg counts it. Chroma is not resampled."""
    y_HW, u_hw, v_hw = planes
    jpeg: bytes = simplejpeg.encode_jpeg_yuv_planes(y_HW, u_hw, v_hw, quality, fastdct=False)
    return jpeg
