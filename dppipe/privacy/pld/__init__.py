"""Privacy loss distributions: dppipe's own accountant by convolution, with a bound on its round-off."""
