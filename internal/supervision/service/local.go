package service

import "countersign/internal/canon"

// Act is one operation at a local service, under way: State is what it works on.
type Act[S any] struct {
	State *S
	NewID func() string // names what the operation creates
	out   Effect
}

// Show is what the operation shows.
func (a *Act[S]) Show(v any) { a.out.View = View(v) }

// Refuse says why the operation changes nothing.
func (a *Act[S]) Refuse(why string) { a.out.Refused = why }

// Ordered is the order, transfer or trade that the operation has made.
func (a *Act[S]) Ordered(id string) { a.out.OrderID = &id }

// Execute lets run act on the state of a local service. What run refused changed nothing,
// whatever it did to the state; an error is a defect.
func Execute[S any](state []byte, newID func() string, run func(*Act[S]) error) (Effect, error) {
	var s S
	if err := canon.Unmarshal(state, &s); err != nil {
		return Effect{}, err
	}
	a := &Act[S]{State: &s, NewID: newID}
	if err := run(a); err != nil {
		return Effect{}, err
	}
	if a.out.Refused == "" {
		state = canon.MustMarshal(&s)
	}
	a.out.State = state
	return a.out, nil
}
