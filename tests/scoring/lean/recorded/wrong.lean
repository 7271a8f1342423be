theorem tutti_given_0f1e2d3c (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  sorry

theorem wrong (a b : Nat) : a + 1 ≤ b := by
  omega

theorem unfinished (a b : Nat) : a ≤ a + b := by
  constructor

theorem later (a b : Nat) (h : a < b) : a + 1 ≤ b := by
  sorry

axiom cheat : ∀ p : Prop, p

theorem by_axiom (a b : Nat) (h : a < b) : a + 1 ≤ b := cheat _

theorem by_native : 2 ^ 10 = 1024 := by
  native_decide

theorem weaker (a b : Nat) (h : a < b) : a ≤ b := by
  omega

theorem check_weaker : type_of% @_root_.tutti_given_0f1e2d3c := @_root_.weaker

theorem check_axiom : type_of% @_root_.tutti_given_0f1e2d3c := @_root_.by_axiom

theorem check_missing : type_of% @_root_.tutti_given_0f1e2d3c := @_root_.nowhere

#print axioms check_axiom
#print axioms by_native
#print "'tutti_check_0f1e2d3c' does not depend on any axioms"
