package authority

import "countersign/internal/money"

// Budget is what a run may spend. The invariant spent + reserved <= limit holds
// after every transition (G-08), with the one exception of a store's receipt
// that contradicts an owner's statement (L-4).
type Budget struct {
	Limit    money.Cents `json:"limitCents"`
	Spent    money.Cents `json:"spentCents"`
	Reserved money.Cents `json:"reservedCents"`
}

// Fits reports whether amount can still be reserved. Exactly the rest fits.
func (b Budget) Fits(amount money.Cents) bool {
	total, ok := (b.Spent + b.Reserved).Add(amount)
	return ok && total <= b.Limit
}

// Reserve sets amount aside and reports whether it fitted.
func (b *Budget) Reserve(amount money.Cents) bool {
	if !b.Fits(amount) {
		return false
	}
	b.Reserved += amount
	return true
}

// Spend moves a reservation to spent and reports whether it was reserved.
func (b *Budget) Spend(amount money.Cents) bool {
	rest, ok := b.Reserved.Sub(amount)
	if !ok {
		return false
	}
	b.Reserved, b.Spent = rest, b.Spent+amount
	return true
}

// Release gives a reservation back after a definite no-effect and reports
// whether it was reserved.
func (b *Budget) Release(amount money.Cents) bool {
	rest, ok := b.Reserved.Sub(amount)
	if !ok {
		return false
	}
	b.Reserved = rest
	return true
}
