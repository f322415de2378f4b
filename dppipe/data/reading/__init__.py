"""Reading files for data kinds.

Headers are read without records, errors never show values, and scaling takes constants.
"""
