"""What can't be private is refused before budget is spent, with the layer's path."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dppipe.engine.rules as rules
from dppipe.clipping import Flat
from dppipe.engine import Engine, check_engine, clipped_sum
from dppipe.engine.gradients.forms import Dense
from dppipe.errors import PrivacyRefusal


def loss(model, batch):
    return F.cross_entropy(model(batch[0]), batch[1], reduction="none")


def batch(rows=4):
    torch.manual_seed(1)
    return torch.randn(rows, 6, 5), torch.arange(rows) % 3


def network(*middle):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 5), *middle, nn.Flatten(), nn.Linear(30, 3))


def check(model, per_sample_loss=loss, rows=None):
    with Engine(model, per_sample_loss, Flat(max_grad_norm=0.5)) as engine:
        return check_engine(engine, rows or batch())


class Centre(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Counter(nn.Module):
    def __init__(self, *, replace):
        super().__init__()
        self.register_buffer("total", torch.zeros(5))
        self.replace = replace

    def forward(self, x):
        seen = x.detach().mean((0, 1))
        if self.replace:
            self.total = self.total + seen
        else:
            self.total += seen
        return x


def test_a_sound_model_passes_and_is_reported():
    report = check(network(nn.Tanh(), nn.Dropout(0.5), nn.LayerNorm(5)))
    assert [row.name for row in report.parameters] == [
        "0.weight",
        "0.bias",
        "3.weight",
        "3.bias",
        "5.weight",
        "5.bias",
    ]
    assert report.parameters[0].kernel in ("ghost", "dense")
    assert report.parameters[4].form == "outer"
    assert report.row_by_row == {}


def test_chance_doesn_t_fail_the_check():
    check(
        nn.Sequential(
            nn.TransformerEncoderLayer(5, 1, 7, dropout=0.3, batch_first=True),
            nn.Flatten(),
            nn.Linear(30, 3),
        )
    )

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.head = nn.LSTM(5, 4, 2, dropout=0.5, batch_first=True), nn.Linear(4, 3)

        def forward(self, x):
            return self.head(self.layer(x)[0][:, -1] + torch.randn(len(x), 4))

    check(Recurrent())


@pytest.mark.parametrize(
    "norm",
    [nn.BatchNorm1d(6), nn.SyncBatchNorm(6), nn.BatchNorm1d(6, track_running_stats=False).eval()],
)
def test_batch_norm_is_refused_with_its_path_and_a_suggestion(norm):
    with pytest.raises(PrivacyRefusal, match=r"^1: .*BatchNorm.*GroupNorm\(6, 6\)"):
        check(network(norm))
    with pytest.raises(PrivacyRefusal, match=r"GroupNorm"):
        clipped_sum(network(norm), loss, batch(), Flat())


def test_batch_norm_that_is_frozen_passes():
    assert "1" in check(network(nn.BatchNorm1d(6).eval())).row_by_row


def test_running_statistics_are_refused():
    with pytest.raises(PrivacyRefusal, match=r"1: .*track_running_stats=False"):
        check(network(nn.InstanceNorm1d(6, track_running_stats=True)))


@pytest.mark.parametrize("replace", [False, True])
def test_a_buffer_that_changes_in_forward_is_refused(replace):
    with pytest.raises(PrivacyRefusal, match=r"1\.total: "):
        check(network(Counter(replace=replace)))


def test_a_layer_that_mixes_records_is_refused_with_its_path():
    with pytest.raises(PrivacyRefusal, match=r"^1: .*depend on that record alone"):
        check(network(Centre()))


def test_a_loss_that_mixes_records_is_refused():
    def contrast(model, rows):
        losses = loss(model, rows)
        return losses - losses.mean()

    with pytest.raises(PrivacyRefusal, match=r"^per_sample_loss: "):
        check(network(), contrast)


def test_made_up_rows_that_are_all_alike_still_show_mixing():
    with pytest.raises(PrivacyRefusal, match=r"^1: "):
        check(network(Centre()), rows=(torch.zeros(4, 6, 5), torch.arange(4) % 3))


def test_made_up_classes_that_are_all_alike_ask_for_synthetic_examples():
    with pytest.raises(PrivacyRefusal, match=r"equal at batch\[1\].*synthetic="):
        check(network(), rows=(torch.randn(4, 6, 5), torch.zeros(4, dtype=torch.long)))


def test_an_in_place_change_of_a_layer_s_input_is_an_error():
    """Ordinary training refuses it too: the weight's gradient needs the input as it was."""

    class Spoils(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(5, 5)

        def forward(self, x):
            y = self.layer(x)
            x += 1
            return y + x

    with pytest.raises((PrivacyRefusal, RuntimeError), match=r"in-?place"):
        check(network(Spoils()))


@pytest.mark.parametrize("wrong", ["norms", "sums"])
def test_a_wrong_engine_is_refused(wrong, monkeypatch):
    class Wrong(Dense):
        def _squares(self):
            return super()._squares() * (0.5 if wrong == "norms" else 1)

        def add_to(self, total, factors):
            super().add_to(total, factors * (2 if wrong == "sums" else 1))

    monkeypatch.setattr(rules.linear, "Dense", Wrong)
    with pytest.raises(PrivacyRefusal, match=r"one-row loop"):
        check(network())
