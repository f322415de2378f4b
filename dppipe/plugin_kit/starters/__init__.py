"""What `dppipe plugins new` starts from: one file a family, each with a plugin that works, its test and its place in a spec."""
