set_option maxHeartbeats 400000

theorem tutti_given_0f1e2d3c (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  sorry

theorem helper (a b : Nat) (h : a < b) : a ≤ b := by
  omega

theorem succ_le_of_lt' (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  have := helper a b h
  omega

theorem _root_.tutti_check_0f1e2d3c : type_of% @_root_.tutti_given_0f1e2d3c := @_root_.succ_le_of_lt'
#print axioms _root_.tutti_check_0f1e2d3c
