package evidence

import (
	"strconv"

	"countersign/internal/canon"
)

// An object writes a canonical object whose members the caller names in
// ascending order.
type object struct {
	b   []byte
	err error
}

func (o *object) name(name string) {
	separator := byte(',')
	if len(o.b) == 0 {
		separator = '{'
	}
	o.b = append(append(append(o.b, separator, '"'), name...), `":`...)
}

// raw writes a value that is canonical already.
func (o *object) raw(name string, value []byte) {
	o.name(name)
	o.b = append(o.b, value...)
}

func (o *object) text(name, value string) {
	o.name(name)
	var err error
	if o.b, err = canon.AppendQuote(o.b, value); err != nil {
		o.err = err
	}
}

func (o *object) integer(name string, value int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, value, 10)
}

// end returns the object. It is an error when a value was outside the grammar
// or is nested too deep.
func (o *object) end() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	o.b = append(o.b, '}')
	if !canon.IsCanonical(o.b) {
		_, err := canon.Members(o.b, nil)
		return nil, err
	}
	return o.b, nil
}
