"""The search box: its grammar, its queries, its suggestions and the addresses of lists."""
