"""The tape: every use of a trainable parameter in a forward pass, and its gradients row by row."""
