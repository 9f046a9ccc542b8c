package evidence

import (
	"iter"
	"sync"
)

// A segment is a run of events that one goroutine checks. Checks that need the
// event before are left to whoever reads the records in order.
type segment struct {
	first   int64 // place of its first event in the list
	raw     []byte
	ends    []int // of each event in raw
	records []*record
	err     error // behind the last record
	done    chan struct{}
}

// Bounds of a segment. One event more than segmentBytes is a segment too.
const (
	segmentEvents = 128
	segmentBytes  = 256 << 10
)

// inSegments yields the events of x in order, each after check has seen its
// segment on one of the workers. All goroutines have ended when it returns, and about
// three segments a worker are in memory at a time.
func inSegments(x *reader, workers int, check func([]*record)) iter.Seq2[*record, error] {
	return func(yield func(*record, error) bool) {
		inOrder := make(chan *segment, 2*workers)
		toCheck := make(chan *segment)
		stop := make(chan struct{})
		var running sync.WaitGroup
		defer running.Wait()
		defer close(stop)
		running.Go(func() {
			defer close(inOrder)
			defer close(toCheck)
			split(x, inOrder, toCheck, stop)
		})
		for range workers {
			running.Go(func() {
				for s := range toCheck {
					s.check(check)
				}
			})
		}
		for s := range inOrder {
			<-s.done
			for _, r := range s.records {
				if !yield(r, nil) {
					return
				}
			}
			if s.err != nil {
				yield(nil, s.err)
				return
			}
		}
	}
}

// split hands out segments until the events end, reading fails or stop closes.
func split(x *reader, inOrder, toCheck chan<- *segment, stop <-chan struct{}) {
	number, room := int64(1), 0
	for more := true; more; {
		s := &segment{first: number, raw: make([]byte, 0, room), done: make(chan struct{})}
		for more && len(s.ends) < segmentEvents && len(s.raw) < segmentBytes {
			var raw []byte
			if raw, more, s.err = x.event(s.raw, number); more {
				s.raw = raw
				s.ends = append(s.ends, len(raw))
				number++
			}
		}
		room = len(s.raw) * 9 / 8 // the next one is likely as large
		select {
		case inOrder <- s:
		case <-stop:
			return
		}
		select {
		case toCheck <- s:
		case <-stop:
			return
		}
	}
}

func (s *segment) check(check func([]*record)) {
	defer close(s.done)
	s.records = make([]*record, 0, len(s.ends))
	var p parser
	start := 0
	for i, end := range s.ends {
		r, err := p.event(s.raw[start:end:end], s.first+int64(i))
		if err != nil {
			s.err = err
			break
		}
		s.records = append(s.records, r)
		start = end
	}
	check(s.records)
}
