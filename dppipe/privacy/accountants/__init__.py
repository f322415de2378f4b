"""Accountants: from events to what they cost. One kind a file, named after it; `base` is the contract."""
