package invariant_test

const childVariable = "COUNTERSIGN_INVARIANT_CHILD"

func runChild(string) int { return 1 }
