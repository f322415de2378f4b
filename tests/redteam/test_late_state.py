"""What a step keeps only once training is under way: it reaches no other record, wherever it is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redteam import late_state
from redteam.neighbours import pair
from redteam.running import Case, Fit, assert_indistinguishable

import dppipe.lightning.isolation.module_state as module_state

pytestmark = pytest.mark.sampled(3)

PLACES = {
    "an attribute of torch's own layer": late_state.OnALayer,
    "slots": late_state.InSlots,
    "a tensor's data": late_state.ThroughData,
    "a long list": late_state.InALongList,
    "a list inside a long list": late_state.InsideALongList,
    "a buffer that the step registers": late_state.RegistersABuffer,
    "a parameter that the step replaces": late_state.RegistersAParameter,
    "a submodule that the step adds": late_state.RegistersAModule,
    "the object of a bound method": late_state.InABoundMethod,
    "a module that a function has captured": late_state.InAClosure,
    "a module that a forward hook has captured": late_state.InAHook,
    "a list that functions have captured": late_state.InACapturedList,
    "a name that functions share": late_state.InACapturedName,
    "functions in a dictionary": late_state.InADictionaryOfFunctions,
    "a default of a function": late_state.InADefault,
    "a keyword default of a function": late_state.InAKeywordDefault,
    "a list that a forward hook has captured": late_state.InAListOfAHook,
    "an object that is a forward hook": late_state.InAHookObject,
}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_step_keeps_from_step_two_on_reaches_no_other_record(place, tmp_path, monkeypatch):
    monkeypatch.setattr(module_state, "LONGEST", 50)  # so that long lists take little time
    assert_indistinguishable(Case(Fit(PLACES[place]), pair), tmp_path)


def test_an_object_that_is_one_of_too_many_to_follow_reaches_no_other_record(tmp_path, monkeypatch):
    monkeypatch.setattr(module_state, "MOST", 0)
    assert_indistinguishable(Case(Fit(late_state.InSlots), pair), tmp_path)


def test_a_teacher_that_follows_the_student_in_a_hook_shows_nothing_of_one_record(tmp_path):
    assert_indistinguishable(Case(Fit(late_state.Distilling), pair), tmp_path)


@pytest.mark.parametrize("module", [late_state.Reaching, late_state.ReachingQuietly])
def test_a_step_can_neither_save_a_checkpoint_nor_end_the_run_through_its_trainer(module, tmp_path):
    assert_indistinguishable(
        Case(Fit(module), lambda: replace(pair(), contributes=False)), tmp_path
    )
