"""Which queries are worth asking for a workload; public, without data and without noise."""
