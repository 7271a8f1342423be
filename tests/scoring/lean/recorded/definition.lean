set_option maxHeartbeats 400000

def double (n : Nat) : Nat := n + n
theorem _tutti_given_0f1e2d3c (a b : Nat) (h : a < b) :
    double a < double b := by
  sorry

theorem helper (n : Nat) : double n = 2 * n := by
  unfold double
  omega

theorem double_lt (a b : Nat) (h : a < b) :
    double a < double b := by
  rw [helper, helper]
  exact Nat.mul_lt_mul_of_pos_left h (by decide)

theorem _root_.tutti_check_0f1e2d3c : type_of% @_root_._tutti_given_0f1e2d3c := @_root_.double_lt
#print axioms _root_.tutti_check_0f1e2d3c
