"""Templates of `dppipe plugins new`: per family a plugin that works, its test and a spec."""
