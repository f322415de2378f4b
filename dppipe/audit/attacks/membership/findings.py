"""What a membership attack has found, in lines, as data and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dppipe.audit.attacks.claim import SHOWN_RATES, Claim
from dppipe.audit.attacks.membership.picture import RocPicture
from dppipe.audit.attacks.membership.roc import Rate, Roc
from dppipe.audit.attacks.report import Report
from dppipe.privacy.printing import shown, shown_delta

if TYPE_CHECKING:
    from dppipe.audit.attacks.membership.roc import Point

_TITLE_RATE = 0.01
_ABOUT_USERS = "One record of each user is attacked; the bound is about whole users."
_SEEDED = "The run is seeded: the bound doesn't hold for who knows the seed."
_MAY_DIFFER = "Members and non-members may differ in distribution: see `dppipe audit`."
_ABOUT_CHANCE = (
    "A point of the lower band lies above the certificate's bound. That bound is about membership "
    "by chance, while members and non-members of a given split may differ in distribution, and "
    "a band at each of many thresholds is left by chance now and then. `dppipe audit` tests the "
    "claim itself."
)
_NOTES = (
    "A member is a training record, a non-member one of the holdout; both are drawn by the spec's "
    "public seed. The bounds in brackets are Clopper-Pearson's, 95 % between both, at one "
    "threshold. The certificate's bound holds for every attack on one unit, and for the average "
    "over many. An attack that stays below it proves nothing: a better one may exist."
)


@dataclass(frozen=True, kw_only=True)
class Findings:
    """One attack on two models."""

    method: str
    shadows: int
    private: Roc
    twin: Roc
    twin_name: str
    claim: Claim
    seed: int
    chosen: Mapping[str, float]
    seeded: bool

    @property
    def above(self) -> Point | None:
        """A point of the private run's lower band that lies above the certificate's bound."""
        return self.private.above(self.claim.blow_up)


def report_of(found: Findings) -> Report:
    """Return the report of a membership attack."""
    title = _title(found)
    return Report(
        kind="membership",
        method=found.method,
        lines=[*title.split("\n"), *_table(found), *_remarks(found)],
        data=_data(found),
        text=list(_paragraphs(found)),
        picture="roc.png",
        draw=RocPicture(title, found.private, found.twin, found.twin_name, found.claim),
    )


def _title(found: Findings) -> str:
    private = found.private.at(_TITLE_RATE).value
    twin = found.twin.at(_TITLE_RATE).value
    most = float(found.claim.blow_up(_TITLE_RATE))
    return (
        f"At 1 % false positives, {found.method} finds {_percent(private)} of the private run's "
        f"members\nand {_percent(twin)} of the twin's. The certificate allows at most "
        f"{_percent(most)}."
    )


def _table(found: Findings) -> Iterator[str]:
    claim = found.claim
    yield _row("", "private run", "twin without privacy", "allowed")
    for rate in SHOWN_RATES:
        private = _band(found.private.at(rate))
        twin = _band(found.twin.at(rate))
        most = float(claim.blow_up(rate))
        yield _row(f"TPR at FPR {_percent(rate)}", private, twin, f"{most:.4f}")
    private = f"{found.private.advantage:.4f}"
    twin = f"{found.twin.advantage:.4f}"
    yield _row("largest TPR - FPR", private, twin, f"{claim.advantage:.4f}")
    yield _row("AUC", f"{found.private.area:.4f}", f"{found.twin.area:.4f}", "")
    trained = f"{found.shadows} shadows each" if found.shadows else "no shadows"
    members = f"{found.private.members} members, {found.private.non_members} non-members"
    budget = f"epsilon {shown(claim.epsilon)}, delta {shown_delta(claim.delta)}"
    yield f"  {members}; {trained}; {budget}"


def _row(name: str, private: str, twin: str, allowed: str) -> str:
    return f"  {name:<18} {private:<23} {twin:<23} {allowed:>8}".rstrip()


def _remarks(found: Findings) -> list[str]:
    """Return what a reader must know beside the table, at most two lines of it."""
    said = []
    point = found.above
    if point is not None:
        most = float(found.claim.blow_up(point.false_positives))
        said.append(
            f"ABOVE THE BOUND: TPR at least {point.true_positives:.4f} at FPR "
            f"{point.false_positives:.4f}; allowed: {most:.4f}"
        )
        said.append(_MAY_DIFFER)
    if found.claim.unit == "user":
        said.append(_ABOUT_USERS)
    if found.seeded:
        said.append(_SEEDED)
    return said[:2]


def _paragraphs(found: Findings) -> Iterator[str]:
    yield _NOTES
    if found.above is not None:
        yield _ABOUT_CHANCE
    if found.claim.unit == "user":
        yield _ABOUT_USERS
    if found.seeded:
        yield _SEEDED


def _data(found: Findings) -> dict[str, Any]:
    point = found.above
    at = {}
    for rate in SHOWN_RATES:
        rates = {"private": found.private.at(rate), "twin": found.twin.at(rate)}
        at[f"{rate:g}"] = {name: one._asdict() for name, one in rates.items()}
    return {
        "claim": found.claim.to_data(),
        "seeded": found.seeded,
        "shadows": found.shadows,
        "public_seed": found.seed,
        "chosen": dict(found.chosen),
        "confidence": 0.95,
        "true_positives_at": at,
        "above_the_bound": None if point is None else point._asdict(),
        "private_run": found.private.to_data(),
        "twin": found.twin.to_data(),
    }


def _band(rate: Rate) -> str:
    return f"{rate.value:.4f} [{rate.low:.4f}, {rate.high:.4f}]"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
