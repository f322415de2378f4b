"""No profile of objective perturbation lies below the truth: densities of one-dimensional runs, and of K = 3 classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppipe.errors import PrivacyRefusal
from dppipe.privacy.accountants import Gdp, Pld, Rdp, Zcdp
from dppipe.privacy.events.plain import event_from_data
from dppipe.privacy.pld.profiles import directions
from dppipe.privacy.rdp.divergences import divergences

Array = NDArray[np.float64]
Records = Sequence[tuple[float, float]]
EPSILONS = np.array([-1.0, -0.2, 0.0, 0.05, 0.2, 0.5, 1.0, 2.0, 4.0])


def event(kind: str, **numbers: float) -> Any:
    return event_from_data({"type": f"{kind}ObjectiveDpEvent", **numbers})


def sigmoid(u: Array) -> Array:
    return 1 / (1 + np.exp(-np.clip(u, -500, 500)))


class Logistic:
    def slope(self, u: Array, y: float) -> Array:
        return -y * sigmoid(-y * u)

    def bend(self, u: Array, y: float) -> Array:
        return sigmoid(u) * sigmoid(-u)


class Hinge:
    width = 0.5

    def slope(self, u: Array, y: float) -> Array:
        return -y * np.clip((1 + self.width - y * u) / (2 * self.width), 0, 1)

    def bend(self, u: Array, y: float) -> Array:
        return (np.abs(1 - y * u) < self.width) / (2 * self.width)


class Huber:
    def slope(self, u: Array, y: float) -> Array:
        return np.clip(u - y, -1, 1)

    def bend(self, u: Array, y: float) -> Array:
        return (np.abs(u - y) < 1).astype(float)


def log_densities(
    loss: Any, places: Array, records: Records, *, regularization: float, sigma: float
) -> Array:
    """Return the density of the minimiser: that of the noise which leads to it, times the Hessian."""
    gradient = regularization * places
    hessian = np.full_like(places, regularization)
    for x, y in records:
        gradient = gradient + x * loss.slope(x * places, y)
        hessian = hessian + x * x * loss.bend(x * places, y)
    normal = -(gradient**2) / (2 * sigma**2) - math.log(sigma) - math.log(2 * math.pi) / 2
    return normal + np.log(hessian)


def true_deltas(
    loss: Any, others: Records, record: tuple[float, float], *, regularization: float, sigma: float
) -> tuple[Array, Array]:
    """Return delta at all epsilons: with the record against without it, and the other way round."""
    far = (12 * sigma + 4 * record[0]) / regularization + 10
    places = np.linspace(-far, far, 300_001)
    step = places[1] - places[0]
    without, having = (
        np.exp(log_densities(loss, places, some, regularization=regularization, sigma=sigma))
        for some in (list(others), [*others, record])
    )
    assert without.sum() * step == pytest.approx(1, abs=1e-3)
    grown = np.exp(EPSILONS)[:, None]
    one = np.maximum(0, having - grown * without).sum(1) * step
    other = np.maximum(0, without - grown * having).sum(1) * step
    return one, other


def never_above(made: Any, truths: tuple[Array, ...], *, slack: float) -> float:
    """Check both directions; return the largest truth over bound."""
    worst = 0.0
    (direction,) = directions(made, relation="zero_out")
    bound = direction.profile(EPSILONS)
    for truth in truths:
        assert (truth <= bound * (1 + slack) + 1e-12).all(), (made, truth / bound)
        worst = max(worst, float((truth / np.maximum(bound, 1e-9)).max()))
    return worst


SETTINGS = [(1, 0.05, 1), (1, 0.3, 1), (1, 2, 1), (2, 0.5, 1), (1, 0.01, 0.5)]
MORE = [(1, 5, 2), (1, 8, 2), (1, 50, 5), (5, 1, 3), (3, 18, 3), (1, 0.2, 1.5), (2, 1, 1.5)]


def datasets(x: float) -> list[Records]:
    return [[], [(x, -1.0)], [(x, 1.0), (-x, 1.0), (x / 2, -1.0)]]


def logistic_ratio(x: float, regularization: float, sigma: float) -> float:
    made = event("Logistic", noise_multiplier=sigma / x, leverage=x * x / regularization)
    worst = 0.0
    for others in [*datasets(x), [(x, 1.0)] * 20 + [(x, -1.0)] * 20]:
        numbers = {"regularization": regularization, "sigma": sigma}
        truths = true_deltas(Logistic(), others, (x, 1.0), **numbers)
        worst = max(worst, never_above(made, truths, slack=1e-4))
    return worst


def test_logistic_densities_are_never_above_the_profile() -> None:
    ratios = [logistic_ratio(*setting) for setting in SETTINGS]
    # Without others the bound is met at small epsilon: it isn't loose.
    assert 0.9 < max(ratios) <= 1 + 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("setting", MORE)
def test_logistic_densities_are_never_above_the_profile_elsewhere(
    setting: tuple[float, float, float],
) -> None:
    assert logistic_ratio(*setting) <= 1 + 1e-4


@pytest.mark.parametrize(
    ("loss", "kind", "bend"), [(Hinge(), "OneSigned", 1.0), (Huber(), "TwoSigned", 1.0)]
)
def test_hinge_and_huber_densities_are_never_above_the_profile(
    loss: Any, kind: str, bend: float
) -> None:
    for x, regularization, sigma in SETTINGS[:4]:
        curvature = bend * x * x / regularization
        made = event(kind, noise_multiplier=sigma / x, curvature=curvature)
        for others in datasets(x):
            for y in (1.0, -2.0) if kind == "TwoSigned" else (1.0,):
                numbers = {"regularization": regularization, "sigma": sigma}
                truths = true_deltas(loss, others, (x, y), **numbers)
                never_above(made, truths, slack=1e-3)


def softmax_truth(
    x: float, regularization: float, sigma: float, others: Sequence[tuple[float, int]], n: int
) -> tuple[Array, Array]:
    reach = 7 * sigma / regularization + x * (len(others) + 1) / regularization
    axis = np.linspace(-reach, reach, n)
    places = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1)

    def density(records: Sequence[tuple[float, int]]) -> Array:
        gradient = regularization * places
        hessian = regularization * np.eye(3) + np.zeros((*places.shape, 3))
        for row, y in records:
            shares = np.exp(row * places - (row * places).max(-1, keepdims=True))
            shares /= shares.sum(-1, keepdims=True)
            gradient = gradient + row * (shares - np.eye(3)[y])
            outer = shares[..., :, None] * (np.eye(3) - shares[..., None, :])
            hessian = hessian + row * row * outer
        log = -(gradient**2).sum(-1) / (2 * sigma**2) - 1.5 * math.log(2 * math.pi * sigma**2)
        return np.exp(log + np.linalg.slogdet(hessian)[1]).reshape(-1)

    cell = (axis[1] - axis[0]) ** 3
    without, having = density(others), density([*others, (x, 0)])
    found: list[Array] = []
    for p, q in ((having, without), (without, having)):
        found.append(np.array([np.maximum(0, p - math.exp(e) * q).sum() * cell for e in EPSILONS]))
    return found[0], found[1]


def softmax_ratio(x: float, regularization: float, sigma: float, n: int) -> float:
    multiplier = sigma / (math.sqrt(2) * x)
    leverage = x * x / regularization
    made = event("Softmax", noise_multiplier=multiplier, leverage=leverage, classes=3)
    others: list[list[tuple[float, int]]] = [[], [(x, 0), (x, 1)]]
    worst = [
        never_above(made, softmax_truth(x, regularization, sigma, some, n), slack=1e-2)
        for some in others
    ]
    return max(worst)


@pytest.mark.parametrize("setting", [(1, 2, 1), (1, 0.5, 1)])
def test_softmax_densities_are_never_above_the_profile(
    setting: tuple[float, float, float],
) -> None:
    assert softmax_ratio(*setting, n=61) < 1


@pytest.mark.slow
@pytest.mark.parametrize("setting", [(2, 8, 2), (1, 8, 2), (1, 1, 1), (1, 0.3, 2)])
def test_softmax_densities_are_never_above_the_profile_elsewhere(
    setting: tuple[float, float, float],
) -> None:
    assert softmax_ratio(*setting, n=141) < 1


@pytest.mark.parametrize("kind", ["Logistic", "OneSigned", "TwoSigned", "Softmax"])
def test_renyi_divergences_are_at_least_those_of_the_densities(kind: str) -> None:
    losses: dict[str, Any] = {"Logistic": Logistic(), "OneSigned": Hinge(), "TwoSigned": Huber()}
    numbers = {"leverage": 2.0} if kind in ("Logistic", "Softmax") else {"curvature": 2.0}
    classes = {"classes": 2} if kind == "Softmax" else {}
    multiplier = 1.5 / (math.sqrt(2) if kind == "Softmax" else 1)
    made = event(kind, noise_multiplier=multiplier, **numbers, **classes)
    loss = losses.get(kind, Logistic())  # two classes are a logistic loss of their difference
    places = np.linspace(-150, 150, 400_001)
    logs = [
        log_densities(loss, places, some, regularization=0.5, sigma=1.5)
        for some in ([], [(1.0, 1.0)])
    ]
    step = places[1] - places[0]
    for order in (1.5, 4.0, 16.0):
        bound = float(divergences(made, relation="zero_out", orders=(order,))[0])
        for p, q in (logs, logs[::-1]):
            truth = math.log(np.exp(order * p + (1 - order) * q).sum() * step) / (order - 1)
            assert truth <= bound * (1 + 1e-6)


@pytest.mark.parametrize("kind", ["Logistic", "OneSigned", "TwoSigned", "Softmax"])
def test_what_has_no_proof_is_refused(kind: str) -> None:
    numbers = {"leverage": 0.1} if kind in ("Logistic", "Softmax") else {"curvature": 0.1}
    classes = {"classes": 3} if kind == "Softmax" else {}
    made = event(kind, noise_multiplier=3.0, **numbers, **classes)
    for accountant in (Zcdp(), Gdp()):
        with pytest.raises(PrivacyRefusal, match="determinant"):
            accountant.compose([(made, 1)], relation="zero_out")
    for able in (Pld(), Rdp()):
        able.compose([(made, 1)], relation="add_remove")
        with pytest.raises(PrivacyRefusal, match="replace_one"):
            able.compose([(made, 1)], relation="replace_one")


def test_rdp_lies_above_pld() -> None:
    made = event("Logistic", noise_multiplier=4.0, leverage=0.5)
    costs = [
        able.compose([(made, 3)], relation="zero_out").epsilon(1e-5) for able in (Pld(), Rdp())
    ]
    assert costs[0] < costs[1]
