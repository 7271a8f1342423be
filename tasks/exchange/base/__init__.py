"""Records of other programs: fields, issues, and what is stored of them."""
