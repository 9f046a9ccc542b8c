package edge

// Without leaves one check out of everything that is registered afterwards.
func (a *API) Without(name string) { a.without = check(name) }

// The bounds of what a request may hold up.
const (
	HeaderTimeout = headerTimeout
	ShutdownGrace = shutdownGrace
)
