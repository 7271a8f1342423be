"""A bank: clients with accounts, cards, transactions, loans and beneficiaries."""
