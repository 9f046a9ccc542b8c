package identity

// Without leaves one check out: "expiry", "right", "own" or "all".
func (o *Owners) Without(name string) *Owners {
	o.without = check(name)
	return o
}

// Without leaves one check out: "expiry".
func (t *Tokens) Without(name string) *Tokens {
	t.without = check(name)
	return t
}
