"""Orientation histograms: each image by itself to the last bit, of bounded norm, as the formulas say."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dppipe.data.features.orientation_histograms import OrientationHistograms


def images(count: int, shape: tuple[int, int, int] = (1, 10, 9), seed: int = 0) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed))


def by_formula(image: np.ndarray, orientations: int, grids: tuple[int, ...]) -> np.ndarray:
    """Return the features of one image [c, h, w], pixel by pixel in float64."""
    channels, height, width = image.shape
    found = []
    for cells in grids:
        counts = np.zeros((orientations, cells, cells))
        for channel, y, x in np.ndindex(channels, height, width):
            plane = image[channel]
            right = plane[y, min(x + 1, width - 1)] - plane[y, max(x - 1, 0)]
            down = plane[min(y + 1, height - 1), x] - plane[max(y - 1, 0), x]
            length = math.hypot(right, down)
            direction = math.atan2(down, right)
            for number, row, column in np.ndindex(orientations, cells, cells):
                away = direction - 2 * math.pi * number / orientations
                near_row = max(0, 1 - abs((y + 0.5) * cells / height - 0.5 - row))
                near_column = max(0, 1 - abs((x + 0.5) * cells / width - 0.5 - column))
                counts[number, row, column] += (
                    length * max(0, math.cos(away)) ** 8 * near_row * near_column
                )
        norms = np.sqrt((counts**2).sum(0))
        local = counts / (norms + 0.25 * norms.mean())
        # Cells are counted along the height first, for each direction; the mean is taken off.
        flat = local.transpose(0, 2, 1).reshape(-1)
        flat = flat - flat.mean()
        found.append(flat / np.linalg.norm(flat))
    return np.concatenate(found) / math.sqrt(len(grids))


@pytest.mark.parametrize("channels", [1, 3])
def test_features_are_those_of_the_formulas(channels: int) -> None:
    made = images(2, (channels, 7, 8)).double()
    kind = OrientationHistograms(orientations=6, cells=(3, 2))
    found = kind.transformed(made)
    assert found.shape == (2, *kind.output_shape((channels, 7, 8)))
    for image, features in zip(made.numpy(), found.numpy(), strict=True):
        np.testing.assert_allclose(features, by_formula(image, 6, (3, 2)), atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(
    count=st.integers(2, 300),
    picked=st.integers(0, 299),
    seed=st.integers(0, 5),
    cells=st.sampled_from([(8,), (4, 2), (1, 3, 5)]),
)
def test_a_records_features_depend_on_it_alone_to_the_last_bit(
    count: int, picked: int, seed: int, cells: tuple[int, ...]
) -> None:
    kind = OrientationHistograms(cells=cells)
    together = images(count, seed=seed)
    picked %= count
    alone = kind.transformed(together[picked : picked + 1])[0]
    assert torch.equal(kind.transformed(together)[picked], alone)
    others = images(count + 7, seed=seed + 100) * 1e6
    others[picked + 7] = together[picked]
    assert torch.equal(kind.transformed(others)[picked + 7], alone)


def test_features_have_the_norm_one_and_those_of_an_even_image_are_zero() -> None:
    kind = OrientationHistograms(cells=(4, 2))
    features = kind.transformed(torch.cat([images(5), images(5) * 1e-3, images(5) * 1e4]))
    torch.testing.assert_close(features.norm(dim=1), torch.ones(15), atol=1e-5, rtol=0)
    assert not kind.transformed(torch.full((1, 1, 8, 8), 0.7)).any()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_record_that_is_not_finite_has_features_that_are_not_and_changes_no_other(
    value: float,
) -> None:
    kind = OrientationHistograms()
    whole = images(3)
    broken = whole.clone()
    broken[1, 0, 4, 4] = value
    found = kind.transformed(broken)
    assert not found[1].isfinite().any()
    assert torch.equal(found[[0, 2]], kind.transformed(whole)[[0, 2]])


def test_an_edge_that_is_turned_counts_for_another_direction() -> None:
    upright = torch.zeros(1, 1, 8, 8)
    upright[..., 4:] = 1.0
    kind = OrientationHistograms(orientations=4, cells=(1,))
    right = kind.transformed(upright)[0]
    down = kind.transformed(upright.transpose(2, 3))[0]
    assert (int(right.argmax()), int(down.argmax())) == (0, 1)


@pytest.mark.parametrize(
    ("shape", "options", "option"),
    [
        ((64,), {}, "kind"),
        ((8, 8), {}, "kind"),
        ((1, 3, 8), {}, "kind"),
        ((1, 8, 8), {"cells": (9,)}, "cells"),
        ((1, 8, 8), {"cells": (0,)}, "cells"),
        ((1, 8, 8), {}, None),
        ((3, 32, 32), {"cells": (8, 4)}, None),
    ],
)
def test_features_that_do_not_fit_an_input_are_named(
    shape: tuple[int, ...], options: dict[str, tuple[int, ...]], option: str | None
) -> None:
    found = [name for name, _ in OrientationHistograms(**options).problems(shape)]
    assert found == ([] if option is None else [option])
