"""Names that others give to weights, as those of our models, which are PaddleVideo's.

PaddleVideo, whole       backbone.res2a.conv0._conv.weight ... head.fc.weight
PaddleVideo, backbone    res2a.conv0._conv.weight ...    so did its first ResNets from ImageNet, with out.weight
PaddleVideo, split norm  backbone.s2.pathway0_res0.branch2.a_bn.bn._mean, and ..._bn.split_bn._mean: multigrid
PaddleClas               stem.0.conv.weight, blocks.0.conv0.bn._mean ... fc.weight
paddle.vision.models     conv1.weight, layer1.0.bn1._mean ... fc.weight
"""

import re
from collections.abc import Sequence


def own_names(keys: Sequence[str], model_keys: Sequence[str]) -> dict[str, str]:
    """Our name by the key of a file, without those that say nothing new. A key that fits no pattern keeps its name,
    after `backbone.` where the file has no prefixes."""
    blocks = list(dict.fromkeys(match[1] for key in model_keys if (match := _BLOCK.match(key))))
    is_vd = "stem.1.conv.weight" in keys
    has_prefixes = any(key.startswith(("backbone.", "head.")) for key in keys)
    names = {}
    for key in keys:
        if _SPLIT_NORM.search(key):
            continue
        name = _WHOLE_NORM.sub(r"\1.\2", key)
        names[key] = name if has_prefixes else _backbone_name(name, blocks, is_vd=is_vd)
    return names


_BLOCK = re.compile(r"backbone\.(res\d\w+|bb_\d_\d)\.")
_SPLIT_NORM = re.compile(r"_bn\.split_bn\.|_bn\.bn\.(weight|bias)$")
"""Statistics of the parts of a batch, and gains and offsets that are 1 and 0: the true ones stand beside."""
_WHOLE_NORM = re.compile(r"(_bn)\.bn\.(_mean|_variance)$")
_OTHERS_STEM = re.compile(r"stem\.(\d)\.(conv|bn)\.(\w+)$")
_OTHERS_BLOCK = re.compile(r"blocks\.(\d+)\.(\w+)\.(conv|bn)\.(\w+)$")
_VISION_STEM = re.compile(r"(conv|bn)1\.(\w+)$")
_VISION_BLOCK = re.compile(r"layer(\d)\.(\d+)\.(conv|bn|downsample\.)(\d)\.(\w+)$")
_PARTS = {"conv": "_conv", "bn": "_batch_norm"}


def _backbone_name(key: str, blocks: Sequence[str], *, is_vd: bool) -> str:
    """The key of a file without prefixes as one of ours; as it is where it belongs to no backbone."""
    if match := _OTHERS_STEM.match(key):
        number, part, end = match.groups()
        return f"backbone.{f'conv1_{int(number) + 1}' if is_vd else 'conv'}.{_PARTS[part]}.{end}"
    if match := _OTHERS_BLOCK.match(key):
        number, conv, part, end = match.groups()
        block = blocks[int(number)] if int(number) < len(blocks) else f"blocks.{number}"
        return f"backbone.{block}.{conv}.{_PARTS[part]}.{end}"
    if match := _VISION_STEM.match(key):
        return f"backbone.conv.{_PARTS[match[1]]}.{match[2]}"
    if match := _VISION_BLOCK.match(key):
        stage, i, part, number, end = match.groups()
        block = f"res{int(stage) + 1}{chr(ord('a') + int(i))}"
        if part == "downsample.":
            return f"backbone.{block}.short.{('_conv', '_batch_norm')[int(number)]}.{end}"
        return f"backbone.{block}.conv{int(number) - 1}.{_PARTS[part]}.{end}"
    return key if re.match(r"(fc|out)(_0)?\.", key) else f"backbone.{key}"
