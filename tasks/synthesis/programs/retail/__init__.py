"""A shop for the home: customers, products with variants, orders, payments and refunds."""
