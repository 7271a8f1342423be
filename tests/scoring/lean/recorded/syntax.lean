theorem _root_._tutti_given_0f1e2d3c (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  sorry

theorem broken (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  omega )

theorem _root_.tutti_check_0f1e2d3c : type_of% @_root_._tutti_given_0f1e2d3c := @_root_.broken
