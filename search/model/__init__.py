"""Models of collective operations: what is measured of single messages predicts them."""
