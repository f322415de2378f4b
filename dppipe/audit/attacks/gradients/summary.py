"""The report of a gradient inversion: the verdict, one table, and what bounds any attacker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dppipe.audit.attacks.gradients.trial import SEEN, Method, Outcome, Trial

if TYPE_CHECKING:
    from dppipe.audit.attacks.claim import Claim
    from dppipe.audit.attacks.gradients.setting import Setting

_HIDES_NOTHING = 0.1
"""An error below this share of the mean record's counts as a recovery."""
TELLS_APART = 0.01
"""A place among this share of the candidates counts as told from the others."""
_LABEL = 20
_CELL = 10
_PLACE = 16


def verdict(trial: Trial) -> str:
    """Say in words what clipping and noise did to the attacks."""
    return f"{_of_clipping(trial)} {_of_noise(trial)}"


def _of_clipping(trial: Trial) -> str:
    best = trial.best("clipped")
    if best is None:
        return "No attack could be used on the clipped gradient."
    if best < _HIDES_NOTHING * trial.mean_mse:
        return "Clipping alone hides nothing: the record was recovered."
    if best < trial.mean_mse:
        return "Clipping alone hid some of the record from these attacks."
    return "These attacks didn't recover the record from its clipped gradient."


def _of_noise(trial: Trial) -> str:
    errors = [trial.best(seen) for seen in ("noised", "release")]
    known = [error for error in errors if error is not None]
    if not known:
        return "None could be used on the noisy one."
    places = [trial.best_place(seen) for seen in ("noised", "release")]
    told = min(place for place in places if place is not None) <= TELLS_APART * trial.candidates
    if min(known) > trial.mean_mse and not told:
        return "At the run's noise every attack is worse than the mean record."
    if not told:
        return f"At the run's noise no attack tells the record from {trial.candidates - 1} others."
    return "At the run's noise an attack came close to the record."


def screen_lines(setting: Setting, trial: Trial, claim: Claim) -> list[str]:
    """Return what a screen shows: the verdict first, twelve lines at most."""
    methods = _methods(trial)
    clipping, noise = _of_clipping(trial), _of_noise(trial)
    lines = [clipping, noise, ""]
    heading = "".join(method.rjust(_CELL) for method in methods)
    heading += f"place of {trial.candidates}".rjust(_PLACE)
    lines.append(f"{'squared error from'.ljust(_LABEL)}{heading}")
    for seen, row in trial.outcomes.items():
        cells = "".join(_cell(row[method]).rjust(_CELL) for method in methods)
        place = trial.best_place(seen)
        best = "-" if place is None else f"{place}"
        lines.append(f"{SEEN[seen].ljust(_LABEL)}{cells}{best.rjust(_PLACE)}")
    lines.append(f"{'the mean record'.ljust(_LABEL)}{_number(trial.mean_mse).rjust(_CELL)}")
    ratio = trial.noise_norm / max(trial.clipped_norm, 1e-30)
    lines.append(f"The noise is {ratio:,.0f} times as long as the clipped gradient.")
    lines.append(_bound_line(trial, claim))
    return lines


def paragraphs(setting: Setting, trial: Trial, claim: Claim, *, seed: int) -> Iterator[str]:
    """Yield the paragraphs of the page."""
    yield _whose_record(setting, seed=seed)
    yield "\n".join(_full_table(trial))
    yield (
        f"*Raw gradient* is that of the one record, as a run without privacy would show it. "
        f"*Clipped* is what the run's own step makes of it without noise, *clipped, noised* what "
        f"it makes of it with the noise of step {setting.step.number} (noise multiplier "
        f"{setting.step.noise_multiplier:.4g}). *The run's release* is the same step on a batch of "
        f"{setting.step.batch_size} records, among them this one. *No privacy, batch* is the mean "
        "gradient of that batch without clipping and noise, as the non-private twin would take it: "
        "what the batch alone hides from these attacks, which is no guarantee."
    )
    yield (
        "*Exact* divides the gradient of a first linear layer's weights by that of its bias "
        "(Geiping et al. 2020). *Distance* looks for a record, a target and a scale with the "
        "nearest gradient (Zhu, Liu and Han 2019). *Cosine* looks for a record whose gradient has "
        "the same direction (Geiping et al. 2020). An attack that fails proves nothing: a better "
        "one may succeed."
    )
    yield (
        f"*Place*: how many of {trial.candidates} records, the attacked one and others of the same "
        "source, are at least as near to what the attack found; on the screen, the best of all "
        "methods. Place 1 tells the record from all others. *The mean record* is the mean of those "
        "others: the guess of somebody who knows nothing."
    )
    if _lacks_exact(trial):
        yield (
            "The exact attack couldn't be used everywhere: it needs a first linear layer with a "
            "bias that both train, and a gradient of that bias that isn't zero."
        )
    if not all(_finished(trial)):
        yield (
            "The clock ended some searches before their last step. Their results are the best so "
            "far, and another machine may get others."
        )
    yield (
        f"The certificate bounds every attack on all releases of the run together, not only these. "
        f"{_bound_line(trial, claim)} (Reconstruction robustness: Balle, Cherubin and Hayes 2022; "
        "Hayes, Mahloujifar and Balle 2023.)"
    )


def as_data(setting: Setting, trial: Trial, claim: Claim) -> dict[str, Any]:
    """Return everything as plain data."""
    rows: dict[str, Any] = {}
    for seen, row in trial.outcomes.items():
        rows[seen] = {method: _outcome_data(outcome) for method, outcome in row.items()}
    return {
        "verdict": verdict(trial),
        "record": "made up" if setting.record is None else setting.record,
        "step": setting.step.number,
        "noise_multiplier": setting.step.noise_multiplier,
        "batch_size": setting.step.batch_size,
        "gradient_values": trial.values,
        "clipped_norm": trial.clipped_norm,
        "noise_norm": trial.noise_norm,
        "signal_share": trial.clipped_norm / trial.noise_norm if trial.noise_norm else None,
        "mean_record_mse": trial.mean_mse,
        "outcomes": rows,
        "claim": claim.to_data(),
        "candidates": trial.candidates,
        "most_hits_among_candidates": float(claim.blow_up(1 / trial.candidates)),
    }


def _whose_record(setting: Setting, *, seed: int) -> str:
    place = f"All starts, and the noise, are drawn by the public seed {seed}."
    if setting.is_made_up:
        return f"The record is made up, like the rest of its batch: no real one was read. {place}"
    return f"The record is number {setting.record} of the training records. {place}"


def _full_table(trial: Trial) -> Iterator[str]:
    yield "| seen | method | MSE | PSNR, dB | SSIM | target found | place |"
    yield "|---|---|---|---|---|---|---|"
    for seen, row in trial.outcomes.items():
        for method, outcome in row.items():
            yield f"| {SEEN[seen]} | {method} | {' | '.join(_cells(outcome))} |"
    yield f"| nothing | the mean record | {_number(trial.mean_mse)} | | | | |"


def _cells(outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return ["can't be used", "", "", "", ""]
    psnr = "" if outcome.psnr is None else f"{outcome.psnr:.1f}"
    ssim = "" if outcome.ssim is None else f"{outcome.ssim:.3f}"
    found = ""
    if outcome.target_is_right is not None:
        found = "yes" if outcome.target_is_right else "no"
    return [_number(outcome.mse), psnr, ssim, found, str(outcome.place)]


def _bound_line(trial: Trial, claim: Claim) -> str:
    prior = 1 / trial.candidates
    most = float(claim.blow_up(prior))
    return f"Place 1 by chance: {prior:.2g}; by all releases of this run: at most {most:.2g}."


def _methods(trial: Trial) -> list[Method]:
    return list(next(iter(trial.outcomes.values())))


def _cell(outcome: Outcome | None) -> str:
    return "-" if outcome is None else _number(outcome.mse)


def _number(value: float) -> str:
    return f"{value:.1e}"


def _lacks_exact(trial: Trial) -> bool:
    return any("exact" in row and row["exact"] is None for row in trial.outcomes.values())


def _finished(trial: Trial) -> Iterator[bool]:
    for row in trial.outcomes.values():
        for outcome in row.values():
            yield outcome is None or outcome.found.finished


def _outcome_data(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {
        "mse": outcome.mse,
        "psnr": outcome.psnr,
        "ssim": outcome.ssim,
        "target_is_right": outcome.target_is_right,
        "place": outcome.place,
        "cost": outcome.found.cost,
        "finished": outcome.found.finished,
    }
