"""The private step of DP-SGD: clipped sums of a batch, handed to the gate."""
