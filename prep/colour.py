"""From the YUV of a video to that of JFIF: full-range BT.601.

Arrays: y_HW uint8 luma; u_hw, v_hw uint8 chroma at half size, h = ceil(H / 2), w = ceil(W / 2).
"""

import numpy as np
import numpy.typing as npt

from prep.decoders.interface import Planes
from prep.geometry import UInt8Array

FloatArray = npt.NDArray[np.float32]

BT601 = (0.299, 0.114)

# Matrix coefficients (ITU-T H.273, table 4) to the shares of red and blue in luma. What is not listed, or
# unspecified (2), counts as BT.601, as it does in ffmpeg.
_LUMA_SHARES = {
    1: (0.2126, 0.0722),  # BT.709
    4: (0.30, 0.11),  # FCC
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020
    10: (0.2627, 0.0593),
}


def to_jfif(planes: Planes, matrix: int, full_range: bool) -> Planes:
    """The planes as JFIF 1.02 wants them. `matrix` as in ITU-T H.273; limited range is 16 to 235 and 16 to 240.

    Linear (ITU-T H.273, 8.3), and rounded once. A chroma sample counts for its 2x2 pixels.
    """
    shares = _LUMA_SHARES.get(matrix, BT601)
    y_HW, u_hw, v_hw = planes
    if shares == BT601:
        return planes if full_range else (_full_luma(y_HW), _full_chroma(u_hw), _full_chroma(v_hw))
    black, luma_gain, chroma_gain = (0, 1.0, 1.0) if full_range else (16, 255 / 219, 255 / 224)
    luma_HW = _linear(y_HW, black, luma_gain)
    b_hw, r_hw = _linear(u_hw, 128, chroma_gain), _linear(v_hw, 128, chroma_gain)
    (y_from_b, y_from_r), (b_from_b, b_from_r), (r_from_b, r_from_r) = _chroma_turn(shares)
    shift_hW = (y_from_b * b_hw + y_from_r * r_hw).repeat(2, axis=1)[:, : luma_HW.shape[1]]
    luma_HW[0::2] += shift_hW
    luma_HW[1::2] += shift_hW[: luma_HW.shape[0] // 2]
    gray = np.float32(128)
    return (
        _rounded(luma_HW),
        _rounded(b_from_b * b_hw + b_from_r * r_hw + gray),
        _rounded(r_from_b * b_hw + r_from_r * r_hw + gray),
    )


def _full_luma(y_HW: UInt8Array) -> UInt8Array:
    """255 / 219 (Y - 16) to the nearest level, in whole numbers: half the time of floating point."""
    levels = np.clip(y_HW, 16, 235).astype(np.uint16)
    levels *= 255
    levels -= 16 * 255 - 219 // 2
    levels //= 219
    return levels.astype(np.uint8)


def _full_chroma(c_hw: UInt8Array) -> UInt8Array:
    """255 / 224 (C - 128) + 128 to the nearest level, of two as near the lower: 255.5 has to become 255."""
    levels = np.clip(c_hw, 16, 240).astype(np.uint16)
    levels *= 255
    levels -= 16 * 255 - 223
    levels //= 224
    return levels.astype(np.uint8)


def _chroma_turn(shares: tuple[float, float]) -> FloatArray:
    """What (Cb, Cr) under the matrix of `shares` add to (Y, Cb, Cr) under BT.601: 3 rows of 2 factors.

    Luma passes as it is, since every matrix gives gray the same value.
    """
    kr, kb = shares
    kg = 1 - kr - kb
    rgb_from_chroma = np.array([[0, 2 - 2 * kr], [-kb * (2 - 2 * kb) / kg, -kr * (2 - 2 * kr) / kg], [2 - 2 * kb, 0]])
    kr, kb = BT601
    luma = np.array([kr, 1 - kr - kb, kb])
    blue, red = (np.array([0, 0, 1]) - luma) / (2 - 2 * kb), (np.array([1, 0, 0]) - luma) / (2 - 2 * kr)
    turn: FloatArray = (np.stack([luma, blue, red]) @ rgb_from_chroma).astype(np.float32)
    return turn


def _linear(plane: UInt8Array, zero: int, gain: float) -> FloatArray:
    values = plane.astype(np.float32)
    values -= np.float32(zero)
    values *= np.float32(gain)
    return values


def _rounded(values: FloatArray) -> UInt8Array:
    """To the nearest level, within 0 to 255. Changes `values`."""
    values += np.float32(0.5)
    np.clip(values, 0, 255, out=values)
    return values.astype(np.uint8)
