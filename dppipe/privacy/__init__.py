"""The privacy core: events, accountants, the budget, calibration and the statement."""
