package tools

import (
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// maxSegment bounds what one segment takes in memory while it is made, in bytes, about.
const maxSegment = 64 << 20

// segment is the lists of some documents that stand together, by word.
type segment struct {
	lists map[string]*list
	bytes int
}

// list is the documents that have one word: for each how far it stands behind the one
// before it and the weight of the word in it, both as varints.
type list struct {
	places []byte
	last   int
}

// listBytes is about what a list takes beside its places.
const listBytes = 128

// add adds a document that stands behind those that were added.
func (s *segment) add(place int, terms []string, weights []int) {
	if s.lists == nil {
		s.lists = map[string]*list{}
	}
	for i, term := range terms {
		l := s.lists[term]
		if l == nil {
			l = &list{}
			s.lists[term] = l
			s.bytes += listBytes + len(term)
		}
		before := len(l.places)
		l.places = binary.AppendUvarint(l.places, uint64(place-l.last))
		l.places = binary.AppendUvarint(l.places, uint64(weights[i]))
		l.last = place
		s.bytes += 2 * (len(l.places) - before)
	}
}

// write writes the segment.
func (s *segment) write(ctx context.Context, insert *sql.Stmt, number int) error {
	for _, term := range slices.Sorted(maps.Keys(s.lists)) {
		if _, err := insert.ExecContext(ctx, number, term, s.lists[term].places); err != nil {
			return err
		}
	}
	return nil
}

// each calls f for every document of a list that v sees.
func (v *view) each(places []byte, f func(place, weight int)) error {
	place := 0
	for len(places) > 0 {
		step, n := binary.Uvarint(places)
		if n <= 0 {
			return errIndex
		}
		weight, m := binary.Uvarint(places[n:])
		if m <= 0 || step >= uint64(len(v.visible)-place) {
			return errIndex
		}
		places = places[n+m:]
		if place += int(step); v.visible[place] {
			f(place, int(weight))
		}
	}
	return nil
}

var errIndex = fmt.Errorf("%w: the index cannot be read", ErrDamaged)
