"""From the YUV of a video to that of JFIF: full-range BT.601.

Arrays: y_HW uint8 luma; u_hw, v_hw uint8 chroma at half size, h = ceil(H / 2), w = ceil(W / 2).
"""

import numpy as np
import numpy.typing as npt

from prep.decoders.interface import Planes
from prep.geometry import UInt8Array

FloatArray = npt.NDArray[np.float32]
UInt16Array = npt.NDArray[np.uint16]

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
        return planes if full_range else (_full_luma(y_HW), *_full_chroma(u_hw, v_hw))
    to_luma, to_b, to_r = _chroma_turn(shares) * (1 if full_range else 255 / 224)
    chroma_2hw = np.empty((2, *u_hw.shape), np.float32)
    chroma_2hw[0], chroma_2hw[1] = u_hw, v_hw
    return (
        _shifted_luma(y_HW, _mixed(chroma_2hw, to_luma), full_range),
        _rounded(_mixed(chroma_2hw, to_b)),
        _rounded(_mixed(chroma_2hw, to_r)),
    )


# Whole numbers take half the time of floating point, and arrays half the time of numbers as the bounds of clip.
_BLACK, _WHITE, _MAX_CHROMA = (np.array(level, np.uint8) for level in (16, 235, 240))


def _full_luma(y_HW: UInt8Array) -> UInt8Array:
    """255 / 219 (Y - 16) to the nearest level."""
    clipped_HW = np.empty(y_HW.shape, np.uint8)
    y_HW.clip(_BLACK, _WHITE, out=clipped_HW)
    levels = clipped_HW.astype(np.uint16)
    levels *= 255
    levels -= 16 * 255 - 219 // 2
    levels //= 219
    return levels.astype(np.uint8)


def _full_chroma(u_hw: UInt8Array, v_hw: UInt8Array) -> tuple[UInt8Array, UInt8Array]:
    """255 / 224 (C - 128) + 128 to the nearest level, of two as near the lower: 255.5 has to become 255."""
    chroma_2hw = np.empty((2, *u_hw.shape), np.uint8)
    chroma_2hw[0], chroma_2hw[1] = u_hw, v_hw
    chroma_2hw.clip(_BLACK, _MAX_CHROMA, out=chroma_2hw)
    levels = chroma_2hw.astype(np.uint16)
    levels *= 255
    levels -= 16 * 255 - 223
    levels //= 224
    chroma_2hw = levels.astype(np.uint8)
    return chroma_2hw[0], chroma_2hw[1]


def _shifted_luma(y_HW: UInt8Array, shift_hw: FloatArray, full_range: bool) -> UInt8Array:
    """Y or 255 / 219 (Y - 16), and the shift, to the nearest level, both counted in parts of 1 / 146: 255 / 219 is
    170 / 146. The shift is rounded to a part before, so a level is off by at most 0.504.

    No shift is above 44 (that of BT.709), so sums are from -63 to 323: with the floor added they fit 16 bits.
    """
    floor = 96
    black, gain = (0, 146) if full_range else (16, 170)
    parts_hw = shift_hw * np.float32(146)
    parts_hw += np.float32(floor * 146 - black * gain + 146 / 2 + 0.5)
    twice_hw = parts_hw.astype(np.uint32)
    twice_hw *= 1 + (1 << 16)  # the same in both halves: faster than to repeat it
    parts_hW = twice_hw.view(np.uint16)[:, : y_HW.shape[1]]
    levels: UInt16Array = y_HW.astype(np.uint16)
    levels *= gain
    levels[0::2] += parts_hW
    levels[1::2] += parts_hW[: levels.shape[0] // 2]
    levels //= 146
    levels.clip(floor, floor + 255, out=levels)
    levels -= floor
    return levels.astype(np.uint8)


def _mixed(chroma_2hw: FloatArray, factors_2: FloatArray) -> FloatArray:
    """The sum over both kinds of factor * (C - 128)."""
    from_b, from_r = factors_2
    mixed_hw: FloatArray = chroma_2hw[0] * from_b
    mixed_hw += chroma_2hw[1] * from_r
    mixed_hw -= np.float32(128) * (from_b + from_r)
    return mixed_hw


def _rounded(chroma_hw: FloatArray) -> UInt8Array:
    """Chroma without its 128 to the nearest level, within 0 to 255. Changes `chroma_hw`."""
    chroma_hw += np.float32(128.5)
    chroma_hw.clip(0, 255, out=chroma_hw)
    return chroma_hw.astype(np.uint8)


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
