"""What `dppipe plugins new` starts from.

There is one file a family: a plugin that works, its test, and its place in a spec.
"""
