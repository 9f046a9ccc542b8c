// Package limit is what the mutation tester's own test mutates.
package limit

// Fits is tested at, below and above the limit.
func Fits(amount, limit int) bool {
	if amount < 0 {
		return false
	}
	return amount <= limit
}

// Late is not tested at the limit, so its boundary can move unseen.
func Late(now, end int) bool {
	return now > end
}

// Expired is tested at the limit.
func Expired(now, end int) bool {
	return now >= end
}

// Findings has a guard that no test provokes.
func Findings(name string, known, allowed bool) (found []string) {
	if !known || !allowed {
		found = append(found, "unknown")
	}
	if len(name) == 0 {
		found = append(found, "nameless")
	}
	return found
}

// Wait never ends without its guard.
func Wait(n int) int {
	for {
		if n == 0 {
			break
		}
		n--
	}
	return n
}
