"""The table of docs/accounting.md is what the support matrix decides."""

from __future__ import annotations

from pathlib import Path

from dppipe.privacy.support import ACCOUNTANTS, SAMPLERS, relations, verdict

PAGE = Path(__file__).parents[2] / "docs" / "accounting.md"


def row(sampler: str, relation: str) -> str:
    def named(status: str, *, adaptive: bool = False) -> str:
        kinds = [
            kind
            for kind in ACCOUNTANTS
            if verdict(
                sampler=sampler, relation=relation, accountant=kind, adaptive=adaptive
            ).status
            == status
        ]
        return "all" if len(kinds) == len(ACCOUNTANTS) else ", ".join(kinds)

    cells = [
        f"`{sampler}`",
        f"`{relation}`",
        named("certified"),
        named("estimate"),
        named("certified", adaptive=True),
    ]
    return "|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|"


def test_the_page_has_one_row_for_each_sampler_and_relation_and_no_other() -> None:
    expected = [row(sampler, relation) for sampler in SAMPLERS for relation in relations(sampler)]
    found = [
        line
        for line in PAGE.read_text().splitlines()
        if line.startswith("| `") and line.count("|") == 6
    ]
    assert found == expected, "\n".join(["expected:", *expected])


def test_the_sentence_about_laplace_noise_is_true() -> None:
    def certified(sampler: str, relation: str) -> set[str]:
        kinds = {
            kind: verdict(sampler=sampler, relation=relation, accountant=kind, mechanism="laplace")
            for kind in ACCOUNTANTS
        }
        return {kind for kind, found in kinds.items() if found.status == "certified"}

    for sampler in SAMPLERS:
        for relation in relations(sampler):
            sampled = {"pld", "basic", "advanced"} if relation != "replace_one" else set()
            whole = set(ACCOUNTANTS) - {"gdp"}
            expected = {
                "poisson": sampled,
                "user": sampled,
                "shuffle": whole,
                "full_batch": whole,
            }.get(sampler, set())
            assert certified(sampler, relation) == expected, (sampler, relation)
