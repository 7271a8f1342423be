"""Negotiation: two parties bargain over a price, scored by the share of the surplus."""
