"""Draws small clips whose class shows only in the order of their frames.

Classes come in pairs. A clip of a pair's second class is drawn by the code that draws the first, then turned
back to front. So the frames of both classes, taken as a heap without order, have the same distribution, and a
model that looks at frames alone can do no better than chance between the two. No motion wraps around, and all
are large over the whole clip: a few frames spread over it (eight, at 56 pixels) tell the direction.

A `Look` is what several clips share (background, colour, shape); the motion is drawn anew for each clip.

    T  frames, or 1 where nothing changes    H  rows, y downwards    W  columns, x to the right    C  R, G, B
    u, v  coordinates (T, H, W) that move and turn along with a shape

Lengths are in px, angles in radians, clockwise on the screen; colours and brightness are in [0, 1].
"""

import colorsys
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

WIDTH_PX, HEIGHT_PX = 96, 72
MIN_NUM_FRAMES, MAX_NUM_FRAMES = 24, 40

Floats = npt.NDArray[np.floating[Any]]
Clip = npt.NDArray[np.uint8]
Amount = float | Floats  # one number, or one a frame
Rng = np.random.Generator

_FULL_TURN = 2 * math.pi


@dataclass(frozen=True, kw_only=True)
class Look:
    """What the clips of one group share, as those of a UCF-101 group share a person and a place.

    `background` is float32 (H, W, C). `colour` has 1 as its largest component and is multiplied by `value`.
    `shape` and `lopsided` (which looks the same only after a full turn) are keys of SHAPES and LOPSIDED,
    `texture` of TEXTURES; `texture_depth` in [0, 1] says how far the texture darkens. `noise` is the standard
    deviation of each pixel's brightness.
    """

    background: Floats
    colour: tuple[float, float, float]
    value: float
    shape: str
    lopsided: str
    texture: str
    texture_depth: float
    texture_period_px: float
    noise: float


@dataclass(frozen=True, kw_only=True)
class _Layer:
    """A shape on every frame: its signed distance (negative inside) and its own coordinates, all (T, H, W).

    `value` (T) replaces the look's; `edge` (T) is the width of the shape's soft edge.
    """

    distance: Floats
    u: Floats
    v: Floats
    value: Floats | None = None
    edge: Floats | None = None


# --- Shapes: signed distances around the origin, exact or near enough for an edge without stairs ---


def _box(u: Floats, v: Floats, half_u: Amount, half_v: Amount) -> Floats:
    return np.maximum(np.abs(u) - half_u, np.abs(v) - half_v)


def _disc(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.sqrt(u * u + v * v) - r


def _square(u: Floats, v: Floats, r: Amount) -> Floats:
    return _box(u, v, 0.85 * r, 0.85 * r)


def _triangle(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.maximum(0.5 * v + 0.866 * np.abs(u), -v) - 0.6 * r


def _hexagon(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.maximum(0.5 * np.abs(v) + 0.866 * np.abs(u), np.abs(v)) - 0.9 * r


def _cross(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.minimum(_box(u, v, 0.35 * r, r), _box(u, v, r, 0.35 * r))


def _half_disc(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.maximum(_disc(u, v, r), -u)


def _comet(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.minimum(_disc(u - 0.5 * r, v, 0.5 * r), _box(u + 0.1 * r, v, 0.8 * r, 0.2 * r))


def _hook(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.minimum(_box(u, v, 0.9 * r, 0.25 * r), _box(u - 0.65 * r, v - 0.4 * r, 0.25 * r, 0.6 * r))


def _wedge(u: Floats, v: Floats, r: Amount) -> Floats:
    return np.maximum(0.95 * np.abs(v) + 0.3 * (u - r), -u - 0.7 * r)


Shape = Callable[[Floats, Floats, Amount], Floats]
SHAPES: dict[str, Shape] = {
    "disc": _disc,
    "square": _square,
    "triangle": _triangle,
    "hexagon": _hexagon,
    "cross": _cross,
}
LOPSIDED: dict[str, Shape] = {"half_disc": _half_disc, "comet": _comet, "hook": _hook, "wedge": _wedge}


# --- Textures: patterns in [0, 1] over coordinates counted in periods ---


def _plain(u: Floats, v: Floats) -> Floats:
    return np.ones_like(u)


def _stripes(u: Floats, v: Floats) -> Floats:
    stripes: Floats = 0.5 + 0.5 * np.sin(_FULL_TURN * u)
    return stripes


def _checks(u: Floats, v: Floats) -> Floats:
    checks: Floats = (np.floor(2 * u) + np.floor(2 * v)) % 2
    return checks


def _dots(u: Floats, v: Floats) -> Floats:
    dots: Floats = np.clip(4 - 12 * _disc(u - np.floor(u) - 0.5, v - np.floor(v) - 0.5, 0.0), 0, 1)
    return dots


Texture = Callable[[Floats, Floats], Floats]
TEXTURES: dict[str, Texture] = {"plain": _plain, "stripes": _stripes, "checks": _checks, "dots": _dots}


# --- Looks ---


def _clouds(rng: Rng) -> Floats:
    """Smooth random blobs (H, W) in [0, 1]: a coarse random grid, linearly interpolated."""
    coarse = rng.random((5, 6))
    across, down = np.linspace(0, 5, WIDTH_PX), np.linspace(0, 4, HEIGHT_PX)
    rows = np.array([np.interp(across, range(6), row) for row in coarse])
    return np.array([np.interp(down, range(5), column) for column in rows.T]).T


def _background(value: float, rng: Rng) -> Floats:
    """A float32 (H, W, C) mix of two colours of about the same brightness."""
    first_C, second_C = (
        np.array(colorsys.hsv_to_rgb(rng.random(), rng.uniform(0.1, 0.5), value * rng.uniform(0.8, 1.2)))
        for _ in range(2)
    )
    angle, period = rng.uniform(0, _FULL_TURN), rng.uniform(12, 36)
    u_THW, v_THW = _coordinates(WIDTH_PX / 2, HEIGHT_PX / 2, angle)
    patterns_HW = [
        _clouds(rng),
        np.clip(0.5 + u_THW[0] / WIDTH_PX, 0, 1),
        *(TEXTURES[name](u_THW[0] / period, v_THW[0] / period) for name in ("stripes", "checks", "dots")),
    ]
    pattern_HW1 = patterns_HW[rng.integers(len(patterns_HW))][..., None]
    mixed_HWC: Floats = (first_C * (1 - pattern_HW1) + second_C * pattern_HW1).clip(0, 1).astype(np.float32)
    return mixed_HWC


def draw_look(rng: Rng) -> Look:
    """A random look: a bright shape on a dark background, or the other way round."""
    dark, bright = rng.uniform(0.08, 0.22), rng.uniform(0.75, 0.95)
    shape_is_bright = rng.random() < 0.6
    return Look(
        background=_background(dark if shape_is_bright else bright, rng),
        colour=colorsys.hsv_to_rgb(rng.random(), rng.uniform(0.1, 0.55), 1.0),
        value=bright if shape_is_bright else dark,
        shape=str(rng.choice(list(SHAPES))),
        lopsided=str(rng.choice(list(LOPSIDED))),
        texture=str(rng.choice(list(TEXTURES))),
        texture_depth=rng.uniform(0.2, 0.45),
        texture_period_px=rng.uniform(6, 12),
        noise=rng.uniform(0.005, 0.025),
    )


# --- Motions: each draws the first class of its pair, while `progress_T` climbs from 0 to 1 ---


def _per_frame(a: Amount) -> Floats:
    """The amount as float32 (T, 1, 1), which goes with pictures."""
    return np.asarray(a, np.float32).reshape(-1, 1, 1)


def _coordinates(x: Amount, y: Amount, angle: Amount) -> tuple[Floats, Floats]:
    """Each pixel's (u_THW, v_THW) as seen from (x, y) by someone turned by `angle`."""
    dx_T1W = np.arange(WIDTH_PX, dtype=np.float32) - _per_frame(x)
    dy_TH1 = np.arange(HEIGHT_PX, dtype=np.float32)[:, None] - _per_frame(y)
    cos_T11, sin_T11 = np.cos(_per_frame(angle)), np.sin(_per_frame(angle))
    return dx_T1W * cos_T11 + dy_TH1 * sin_T11, dy_TH1 * cos_T11 - dx_T1W * sin_T11


def _stamp(shape: Shape, x: Amount, y: Amount, r: Amount, angle: Amount = 0.0) -> _Layer:
    u_THW, v_THW = _coordinates(x, y, angle)
    return _Layer(distance=shape(u_THW, v_THW, _per_frame(r)), u=u_THW, v=v_THW)


def _nearer(a: _Layer, b: _Layer) -> _Layer:
    b_is_nearer_THW = b.distance < a.distance
    return _Layer(
        distance=np.minimum(a.distance, b.distance),
        u=np.where(b_is_nearer_THW, b.u, a.u),
        v=np.where(b_is_nearer_THW, b.v, a.v),
    )


def _between(first: float, last: float, progress_T: Floats) -> Floats:
    return np.asarray(first + (last - first) * progress_T, np.float32)


def _travel(high: float, low: float, at_least: float, progress_T: Floats, rng: Rng) -> Floats:
    """A way of `at_least` or more from somewhere up to `high` to somewhere down to `low`."""
    length = rng.uniform(at_least, high - low)
    end = rng.uniform(low, high - length)
    return _between(end + length, end, progress_T)


def _near_middle(reach: float, rng: Rng) -> tuple[float, float]:
    dx, dy = rng.uniform(-reach, reach, 2)
    return WIDTH_PX / 2 + dx, HEIGHT_PX / 2 + dy / 2


def _move_up(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, r, angle = rng.uniform(30, WIDTH_PX - 30), rng.uniform(9, 13), rng.uniform(0, _FULL_TURN)
    x_T = _between(x, x + rng.uniform(-6, 6), progress_T)
    y_T = _travel(HEIGHT_PX - 13, 13, 34, progress_T, rng)
    return _stamp(SHAPES[look.shape], x_T, y_T, r, angle)


def _grow(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(10, rng)
    r_T = _between(rng.uniform(5, 9), rng.uniform(19, 27), progress_T)
    return _stamp(SHAPES[look.shape], x, y, r_T, rng.uniform(0, _FULL_TURN))


def _open(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(8, rng)
    half_angle_T = _between(rng.uniform(0.2, 0.5), rng.uniform(2.2, 2.9), progress_T)

    def fan(u: Floats, v: Floats, r: Amount) -> Floats:
        rho = np.sqrt(u * u + v * v)
        return np.maximum(rho - r, (np.abs(np.arctan2(v, u)) - _per_frame(half_angle_T)) * rho)

    return _stamp(fan, x, y, rng.uniform(18, 26), rng.uniform(0, _FULL_TURN))


def _fill(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(10, rng)
    half_u, half_v = rng.uniform(12, 22), rng.uniform(20, 26)
    level_T = _between(rng.uniform(0.7, 0.9), rng.uniform(-0.9, -0.6), progress_T) * half_v

    def vessel(u: Floats, v: Floats, r: Amount) -> Floats:
        wall: Floats = np.abs(_box(u, v, half_u + 2, half_v + 2)) - 1
        liquid: Floats = np.maximum(_box(u, v, half_u, half_v), _per_frame(level_T) - v)
        return np.minimum(wall, liquid)

    return _stamp(vessel, x, y, 0.0)


def _gather(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(4, rng)
    num_dots, start, r = int(rng.integers(4, 7)), rng.uniform(0, _FULL_TURN), rng.uniform(4, 5.5)
    apart_T = _between(rng.uniform(22, 28), rng.uniform(5, 8), progress_T)
    angles = [start + _FULL_TURN * i / num_dots for i in range(num_dots)]
    dots = [_stamp(_disc, x + apart_T * math.cos(a), y + apart_T * math.sin(a), r) for a in angles]
    return reduce(_nearer, dots)


def _squash(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(8, rng)
    stretch_T11 = _per_frame(np.exp(_between(rng.uniform(-0.7, -0.5), rng.uniform(0.5, 0.7), progress_T)))
    shape = SHAPES[look.shape]

    def squashed(u: Floats, v: Floats, r: Amount) -> Floats:
        scale_T11 = np.minimum(stretch_T11, 1 / stretch_T11)
        return shape(u / stretch_T11, v * stretch_T11, r) * scale_T11

    return _stamp(squashed, x, y, rng.uniform(13, 17))


def _focus(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(10, rng)
    layer = _stamp(SHAPES[look.shape], x, y, rng.uniform(15, 22), rng.uniform(0, _FULL_TURN))
    # The eye, and an edge filter, go by the ratio of widths.
    log_edge_T = _between(math.log(rng.uniform(30, 40)), math.log(rng.uniform(1.5, 2.5)), progress_T)
    return replace(layer, edge=np.exp(log_edge_T))


def _brighten(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(12, rng)
    layer = _stamp(SHAPES[look.shape], x, y, rng.uniform(15, 23), rng.uniform(0, _FULL_TURN))
    return replace(layer, value=_between(rng.uniform(0.05, 0.15), rng.uniform(0.9, 1), progress_T))


def _meet(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(4, rng)
    axis, r = rng.uniform(-0.6, 0.6) + math.pi * rng.integers(2), rng.uniform(7, 9)
    apart_T = _between(rng.uniform(26, 31), r + rng.uniform(0, 2), progress_T)
    dx_T, dy_T = apart_T * math.cos(axis), apart_T * math.sin(axis)
    return _nearer(
        _stamp(SHAPES[look.shape], x + dx_T, y + dy_T, r, axis),
        _stamp(_disc, x - dx_T, y - dy_T, 0.9 * r),
    )


def _move_left(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    y, r, angle = rng.uniform(22, HEIGHT_PX - 22), rng.uniform(9, 13), rng.uniform(0, _FULL_TURN)
    x_T = _travel(WIDTH_PX - 16, 16, 40, progress_T, rng)
    y_T = _between(y, y + rng.uniform(-6, 6), progress_T)
    return _stamp(SHAPES[look.shape], x_T, y_T, r, angle)


def _turn(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(10, rng)
    angle = rng.uniform(0, _FULL_TURN)
    angle_T = _between(angle, angle + rng.uniform(0.4, 0.75) * _FULL_TURN, progress_T)
    return _stamp(LOPSIDED[look.lopsided], x, y, rng.uniform(20, 27), angle_T)


def _orbit(look: Look, progress_T: Floats, rng: Rng) -> _Layer:
    x, y = _near_middle(6, rng)
    angle, away = rng.uniform(0, _FULL_TURN), rng.uniform(18, 22)
    angle_T = _between(angle, angle + rng.uniform(0.5, 0.8) * _FULL_TURN, progress_T)
    x_T, y_T = x + away * np.cos(angle_T), y + away * np.sin(angle_T)
    return _nearer(_stamp(SHAPES[look.shape], x_T, y_T, rng.uniform(7, 10)), _stamp(_disc, x, y, 4.0))


Motion = Callable[[Look, Floats, Rng], _Layer]
_MOTIONS: dict[tuple[str, str], Motion] = {
    ("MoveUp", "MoveDown"): _move_up,
    ("Grow", "Shrink"): _grow,
    ("Open", "Close"): _open,
    ("Fill", "Drain"): _fill,
    ("Gather", "Scatter"): _gather,
    ("Squash", "Stretch"): _squash,
    ("Focus", "Blur"): _focus,
    ("Brighten", "Darken"): _brighten,
    ("Meet", "Part"): _meet,
    # A mirrored clip of one of these shows the other class of its pair; the pairs above don't mind.
    ("MoveLeft", "MoveRight"): _move_left,
    ("TurnClockwise", "TurnCounterclockwise"): _turn,
    ("OrbitClockwise", "OrbitCounterclockwise"): _orbit,
}

CLASS_PAIRS: tuple[tuple[str, str], ...] = tuple(_MOTIONS)
"""The pairs of classes, those first that stay themselves when the picture is mirrored left to right."""


# --- Clips ---


def draw_clip(class_name: str, look: Look, rng: Rng) -> Clip:
    """One random clip: uint8 RGB (T, HEIGHT_PX, WIDTH_PX, 3), T from MIN_NUM_FRAMES to MAX_NUM_FRAMES.

    `class_name` is one of CLASS_PAIRS. With an equal look and generator the second class of a pair gives the
    frames of the first, back to front.
    """
    pair = next(pair for pair in CLASS_PAIRS if class_name in pair)
    num_frames = int(rng.integers(MIN_NUM_FRAMES, MAX_NUM_FRAMES + 1))
    # Speed that rises or falls over the clip, but never stops.
    progress_T = np.linspace(0, 1, num_frames, dtype=np.float32) ** math.exp(rng.uniform(-0.4, 0.4))
    clip_THWC = _paint(_MOTIONS[pair](look, progress_T, rng), look, num_frames, rng)
    return clip_THWC if class_name == pair[0] else np.ascontiguousarray(clip_THWC[::-1])


def _paint(layer: _Layer, look: Look, num_frames: int, rng: Rng) -> Clip:
    edge_T11 = _per_frame(1.0 if layer.edge is None else layer.edge)
    cover_THW = np.clip(0.5 - layer.distance / edge_T11, 0, 1)
    period = look.texture_period_px
    pattern_THW = TEXTURES[look.texture](layer.u / period, layer.v / period)
    value_T11 = _per_frame(look.value if layer.value is None else layer.value)
    shade_THW = value_T11 * (1 - look.texture_depth * (1 - pattern_THW))
    noise_THW = rng.standard_normal((num_frames, HEIGHT_PX, WIDTH_PX), np.float32) * np.float32(look.noise)
    clip_THWC = np.empty((*noise_THW.shape, 3), np.uint8)
    for c in range(3):
        ground_HW = look.background[..., c]
        channel_THW = ground_HW + cover_THW * (look.colour[c] * shade_THW - ground_HW) + noise_THW
        clip_THWC[..., c] = np.clip(channel_THW * 255 + 0.5, 0, 255)
    return clip_THWC
