package evidence

import (
	"errors"
	"io"
	"iter"
)

// ErrOtherSubject is the error of [Fork] for exports that are not about one
// subject.
var ErrOtherSubject = errors.New("evidence: the exports are about different subjects")

// Divergence compares two exports of one subject.
type Divergence struct {
	Common int64     `json:"common"` // events that both begin with
	Counts [2]int64  `json:"counts"` // events of each
	Fork   *[2]Event `json:"fork"`   // the first events that differ; nil when one chain goes on from the other
}

// Fork reads two exports and finds where their chains part. Events are the same
// when the members that a hash covers are, whoever signed them. Two histories
// of one subject that both verify show that a holder of the key forked the
// chain; Fork itself verifies nothing. Call [Verify] on both first: when one
// does not verify, somebody may just have altered it, and a difference that
// Fork finds shows nothing.
//
// The subject is that of the manifests, by kind, id and workspace; others are
// [ErrOtherSubject].
func Fork(a, b io.Reader) (Divergence, error) {
	var d Divergence
	var subjects [2]Subject
	readers := [2]*reader{newReader(a), newReader(b)}
	var next [2]func() (*record, error, bool)
	for i, x := range readers {
		if _, err := x.count(); err != nil {
			return Divergence{}, err
		}
		var stop func()
		next[i], stop = iter.Pull2(x.events())
		defer stop()
	}
	for {
		var pair [2]*record
		for i := range pair {
			r, err, _ := next[i]()
			if err != nil {
				return Divergence{}, err
			}
			if r != nil {
				d.Counts[i]++
			}
			pair[i] = r
		}
		if pair[0] == nil && pair[1] == nil {
			break
		}
		if d.Fork != nil || pair[0] == nil || pair[1] == nil {
			continue
		}
		if pair[0].digest == pair[1].digest {
			d.Common++
		} else {
			d.Fork = &[2]Event{pair[0].Event, pair[1].Event}
		}
	}
	for i, x := range readers {
		m, err := x.manifest()
		if err != nil {
			return Divergence{}, err
		}
		for _, err := range x.texts() {
			if err != nil {
				return Divergence{}, err
			}
		}
		subjects[i] = m.Subject
	}
	if subjects[0].Kind != subjects[1].Kind || subjects[0].ID != subjects[1].ID || subjects[0].Workspace != subjects[1].Workspace {
		return Divergence{}, ErrOtherSubject
	}
	return d, nil
}
