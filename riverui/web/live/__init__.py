"""What changes while somebody looks: counts, notices, figures."""
