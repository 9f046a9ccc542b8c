package gateway_test

import "os"

const childVariable = "COUNTERSIGN_GATEWAY_CHILD"

func runChild(string) int { os.Exit(2); return 2 }
