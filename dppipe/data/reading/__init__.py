"""Reading files for data kinds: headers without records, rows without values in errors, constants instead of statistics."""
