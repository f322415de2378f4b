"""From a spec with a `tune` block to the plan of a private search."""
