"""Jobs in processes of their own: the client's side, the child's, and what goes between them."""
