"""Planning: from a spec to every number that decides privacy, before a record is read."""
