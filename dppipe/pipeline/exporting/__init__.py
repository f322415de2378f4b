"""From a finished run to files that other programs read: weights or a graph, with a model card."""
