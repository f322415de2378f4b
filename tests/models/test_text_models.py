"""Models of token ids: padding changes nothing, rows stand alone, and the engine needs no fallback."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dppipe.clipping import Flat
from dppipe.data import Text
from dppipe.data.reading.tasks import NO_TAG
from dppipe.engine import clipped_sum
from dppipe.engine.engine import Engine
from dppipe.engine.rules.embedding import Lookups
from dppipe.errors import SpecError
from dppipe.input_layout import InputLayout
from dppipe.lightning.objectives import Objective
from dppipe.models import Gru, Logistic, Lstm, Mlp, Model, TextBag, Transformer

LENGTH = 9
VOCABULARY = 51
MODELS: list[Model] = [
    TextBag(),
    TextBag(embedding=4, hidden=(5,), mode="root_mean", scale=2.0),
    TextBag(embedding=4, mode="sum"),
    Lstm(embedding=4, width=5, layers=2, bidirectional=True),
    Lstm(embedding=4, width=5, pooling="last"),
    Gru(embedding=4, width=5, bidirectional=True, pooling="last"),
    Transformer(width=8, heads=2),
]
names = [f"{model.kind}-{place}" for place, model in enumerate(MODELS)]


def built(model: Model, *, outputs: int = 2, per_token: bool = False) -> nn.Module:
    torch.manual_seed(0)
    layout = InputLayout((LENGTH,), vocabulary=VOCABULARY, per_token=per_token)
    return model.build_for(layout, outputs).double().eval()


def texts(*lengths: int) -> torch.Tensor:
    ids = torch.randint(1, VOCABULARY, (len(lengths), LENGTH), generator=torch.manual_seed(1))
    for row, length in enumerate(lengths):
        ids[row, length:] = 0
    return ids


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_what_stands_for_padding_never_counts(model: Model) -> None:
    network = built(model)
    before = network(texts(0, 4, LENGTH))
    assert before.isfinite().all()
    with torch.no_grad():  # noise moves the padding's own weights
        for layer in network.modules():
            if isinstance(layer, nn.Embedding):
                layer.weight[0] = torch.randn(layer.weight.shape[1]) * 100
    after = network(texts(0, 4, LENGTH))
    if isinstance(model, Transformer):  # of a text without tokens the padding is all there is
        before, after = before[1:], after[1:]
    torch.testing.assert_close(after, before)


@pytest.mark.parametrize("model", MODELS, ids=names)
def test_no_row_depends_on_others(model: Model) -> None:
    network = built(model)
    ids = texts(3, 0, LENGTH, 5)
    together = network(ids)
    for row in range(len(ids)):
        torch.testing.assert_close(network(ids[row : row + 1]), together[row : row + 1])


@pytest.mark.parametrize("task", ["binary", "tagging"])
@pytest.mark.parametrize("model", MODELS, ids=names)
def test_the_engine_has_a_rule_for_every_weight(model: Model, task: Any) -> None:
    per_token = task == "tagging"
    if per_token and isinstance(model, TextBag):
        return
    network = built(model, outputs=3 if per_token else 1, per_token=per_token)
    objective = Objective(task, 3 if per_token else 1)
    ids = texts(3, 0, LENGTH, 5)
    targets = torch.tensor([1.0, 0.0, 1.0, 0.0])
    if per_token:
        targets = (ids % 3).masked_fill(ids == 0, NO_TAG)
    engine = Engine(network, objective.per_sample_loss, Flat(max_grad_norm=0.1))
    engine.prepare((ids, targets))
    assert engine.layout.functional is None
    assert engine.layout.fallback == {}
    found = clipped_sum(network, objective.per_sample_loss, (ids, targets), Flat(max_grad_norm=0.1))
    parameters = dict(network.named_parameters())
    wanted = {name: torch.zeros_like(one) for name, one in parameters.items()}
    for row in range(len(ids)):
        alone = (ids[row : row + 1], targets[row : row + 1])
        loss = objective.per_sample_loss(network, alone).sum()
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        norm = (
            torch.stack([one.square().sum() for one in gradients if one is not None]).sum().sqrt()
        )
        torch.testing.assert_close(found.norms[row, 0], norm, rtol=1e-9, atol=1e-9)
        for name, one in zip(parameters, gradients, strict=True):
            if one is not None:
                wanted[name] += one * min(1.0, 0.1 / max(float(norm), 1e-30))
    for name, one in wanted.items():
        torch.testing.assert_close(found.sums[name], one.detach(), rtol=1e-8, atol=1e-10)


def test_a_linear_bag_is_a_linear_model_of_the_counts() -> None:
    network = built(TextBag(mode="mean"), outputs=3)
    ids = texts(4, LENGTH)
    weight = network.get_parameter("embedding.weight")
    counts = torch.zeros(2, VOCABULARY, dtype=torch.float64)
    for row, column in ids.nonzero().tolist():
        counts[row, ids[row, column]] += 1
    expected = counts / counts.sum(1, keepdim=True) @ weight + network.get_parameter("bias")
    torch.testing.assert_close(network(ids), expected)


def test_a_models_loss_of_tags_is_the_mean_over_a_records_own_tokens() -> None:
    objective = Objective("tagging", 2)
    scores = torch.randn(2, 3, 2, generator=torch.manual_seed(0))
    tags = torch.tensor([[1, 0, NO_TAG], [NO_TAG] * 3])
    losses = objective.per_sample_loss(lambda _: scores, (None, tags))
    own = nn.functional.cross_entropy(scores[0, :2], tags[0, :2])
    torch.testing.assert_close(losses, torch.stack([own, torch.zeros(())]))
    metrics = objective.metrics("")
    objective.score(metrics, torch.tensor([[[0.0, 1], [0, 1], [0, 1]]] * 2), tags)
    assert float(metrics.compute()["accuracy"]) == 0.5


def test_models_and_inputs_that_dont_suit_each_other_are_named() -> None:
    data = Text.from_data(
        {"path": "t.tsv", "records": 5, "target": {"column": "label", "classes": ["no", "yes"]}}
    )
    with pytest.raises(SpecError, match=r"expected numbers as inputs of mlp, got token ids"):
        Mlp().build_for(data.input_layout, 1)
    with pytest.raises(SpecError, match="Take text_bag, lstm, gru, transformer or a class"):
        Logistic().build_for(data.input_layout, 1)
    with pytest.raises(SpecError, match=r"expected token ids as inputs of lstm, got numbers of"):
        Lstm().build((5,), 1)
    with pytest.raises(SpecError, match="predicts for every word, got text_bag"):
        built(TextBag(), per_token=True)


def test_a_large_vocabulary_is_never_formed_for_each_record() -> None:
    layout = InputLayout((LENGTH,), vocabulary=2**22)
    network = TextBag(mode="root_mean").build_for(layout, 1)
    loss = Objective("binary", 1).per_sample_loss
    engine = Engine(network, loss, Flat(max_grad_norm=0.5))
    batch = (texts(3, 0, LENGTH), torch.tensor([1.0, 0.0, 1.0]))
    engine.prepare(batch)
    found = engine.gradients_of([batch])
    assert isinstance(found["embedding.weight"], Lookups)
