"""The order of samples: a function of seed and epoch, cut into batches, shared among ranks."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.sampler import Item, epoch_order, evaluation_batches, training_batches
from train.schedules import Shape

sizes, batch_sizes, seeds, epochs = st.integers(0, 300), st.integers(1, 40), st.integers(0, 2**32), st.integers(0, 999)


def batches_of(num_samples: int, batch_size: int, seed: int = 0, epoch: int = 0, **others: int) -> list[list[Item]]:
    return training_batches(
        num_samples, batch_size=batch_size, shapes=[Shape(1, 8, 56)], seed=seed, epoch=epoch, **others
    )


def indices_of(batches: Sequence[Sequence[Item]]) -> list[int]:
    return [item.index for batch in batches for item in batch]


@given(sizes, seeds, epochs)
def test_an_order_is_a_permutation(num_samples: int, seed: int, epoch: int) -> None:
    assert sorted(epoch_order(num_samples, seed, epoch).tolist()) == list(range(num_samples))


@given(sizes, batch_sizes, seeds, epochs)
def test_an_epoch_is_the_order_cut_to_whole_batches(num_samples: int, batch_size: int, seed: int, epoch: int) -> None:
    batches = batches_of(num_samples, batch_size, seed, epoch)
    assert [len(batch) for batch in batches] == [batch_size] * (num_samples // batch_size)
    whole = num_samples - num_samples % batch_size
    assert indices_of(batches) == epoch_order(num_samples, seed, epoch)[:whole].tolist()
    assert all(type(item.index) is int for batch in batches for item in batch)


@given(sizes, batch_sizes, seeds, epochs)
def test_the_same_seed_and_epoch_give_the_same(num_samples: int, batch_size: int, seed: int, epoch: int) -> None:
    assert batches_of(num_samples, batch_size, seed, epoch) == batches_of(num_samples, batch_size, seed, epoch)


def test_each_seed_and_epoch_has_its_own_order() -> None:
    orders = {tuple(indices_of(batches_of(50, 10, seed, epoch))) for seed in range(20) for epoch in range(20)}
    assert len(orders) == 400


def test_items_say_how_to_read() -> None:
    (batch,) = training_batches(1, batch_size=1, shapes=[Shape(1, 4, 64)], seed=5, epoch=3)
    assert batch == [Item(index=0, num_frames=4, crop_px=64, epoch=3)]


@given(sizes, st.integers(1, 5), st.integers(1, 8), seeds)
def test_ranks_share_every_global_batch(num_samples: int, num_ranks: int, per_rank: int, seed: int) -> None:
    batch_size = num_ranks * per_rank
    shares = [batches_of(num_samples, batch_size, seed, rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    for step, batch in enumerate(batches_of(num_samples, batch_size, seed)):
        assert all(len(share[step]) == per_rank for share in shares)
        # Rank r has positions r, r + num_ranks, ...
        assert [share[step][place] for place in range(per_rank) for share in shares] == batch


@given(sizes, batch_sizes, seeds, st.data())
def test_a_later_first_step_gives_the_rest(num_samples: int, batch_size: int, seed: int, data: Any) -> None:
    whole = batches_of(num_samples, batch_size, seed)
    first_step = data.draw(st.integers(0, len(whole)))
    assert batches_of(num_samples, batch_size, seed, first_step=first_step) == whole[first_step:]


@pytest.mark.parametrize("first_step", [0, 1, 2, 3])
def test_a_rank_resumes_where_its_list_would_be(first_step: int) -> None:
    ranks = {"rank": 1, "num_ranks": 2}
    whole = batches_of(26, 8, 4, 2, **ranks)
    assert batches_of(26, 8, 4, 2, first_step=first_step, **ranks) == whole[first_step:]


@given(sizes, batch_sizes, st.integers(1, 7))
def test_an_evaluation_covers_each_sample_once(num_samples: int, batch_size: int, num_ranks: int) -> None:
    met: list[int] = []
    for rank in range(num_ranks):
        batches = list(
            evaluation_batches(
                num_samples, batch_size=batch_size, num_frames=8, crop_px=56, rank=rank, num_ranks=num_ranks
            )
        )
        assert all(len(batch) == batch_size for batch in batches[:-1])
        assert all(1 <= len(batch) <= batch_size for batch in batches)
        indices = indices_of(batches)
        assert indices == sorted(indices)
        met += indices
    assert sorted(met) == list(range(num_samples))


def test_a_known_evaluation() -> None:
    batches = list(evaluation_batches(5, batch_size=2, num_frames=3, crop_px=20))
    assert batches == [
        [Item(0, 3, 20, 0), Item(1, 3, 20, 0)],
        [Item(2, 3, 20, 0), Item(3, 3, 20, 0)],
        [Item(4, 3, 20, 0)],
    ]


def test_the_views_of_a_sample_come_one_after_the_other() -> None:
    batches = list(evaluation_batches(4, batch_size=2, num_frames=3, crop_px=20, num_views=3, rank=1, num_ranks=2))
    assert [[(item.index, item.view) for item in batch] for batch in batches] == [
        [(1, 0), (1, 1)],
        [(1, 2), (3, 0)],
        [(3, 1), (3, 2)],
    ]


# --- Batches of varying shape ---

shapes_st = st.lists(
    st.builds(Shape, st.integers(1, 5), st.integers(1, 8), st.integers(16, 64)), min_size=1, max_size=3
)


@given(sizes, st.integers(1, 3), st.integers(1, 3), shapes_st, seeds, st.data())
def test_shapes_take_turns(
    num_samples: int, per_rank: int, num_ranks: int, shapes: list[Shape], seed: int, data: Any
) -> None:
    """The order of the epoch, cut one after the other; all ranks have one shape at one step; a later first step gives
    the rest, in the middle of a turn too."""
    batch_size = per_rank * num_ranks

    def batches(**others: int) -> list[list[Item]]:
        return training_batches(num_samples, batch_size=batch_size, shapes=shapes, seed=seed, epoch=3, **others)

    whole = batches()
    for step, batch in enumerate(whole):
        shape = shapes[step % len(shapes)]
        assert len(batch) == batch_size * shape.multiple
        assert {item[1:3] for item in batch} == {(shape.num_frames, shape.crop_px)}
    met = indices_of(whole)
    assert met == epoch_order(num_samples, seed, 3)[: len(met)].tolist()
    assert num_samples - len(met) < batch_size * shapes[len(whole) % len(shapes)].multiple
    shares = [batches(rank=rank, num_ranks=num_ranks) for rank in range(num_ranks)]
    for step, batch in enumerate(whole):
        assert [share[step][place] for place in range(len(shares[0][step])) for share in shares] == batch
    first_step = data.draw(st.integers(0, len(whole)))
    assert batches(first_step=first_step) == whole[first_step:]
