"""The tape: every use of a trainable parameter in a forward pass, and its per-row gradients."""
