"""Makes sets of domain tasks: `request` says what, `instance` makes and gates one database's."""
