"""tau2-bench: an agent, a customer, a domain with databases and tools."""
