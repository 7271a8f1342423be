"""What the fuzz test of HTTP services draws, and how it measures them."""
