package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"countersign/evidence"
	"countersign/internal/ledger"
	"countersign/internal/ledger/sqlite"
)

// committer makes one guarded commit after the other on a subject of its own: the
// next state and its signed events, one unless the order says otherwise. That is the least that the ledger does for a
// transition; pgbench's simple-update is of the same size.
type committer struct {
	ledger  committing
	key     evidence.SigningKey
	subject ledger.Subject
	state   []byte
	events  int
}

type committing interface {
	Commit(context.Context, ledger.Change) ledger.Result
}

func newCommitters(p *plane, l committing, o order) (callers []cycler) {
	state := []byte(`{"pad":"` + strings.Repeat("x", 1000) + `"}`)
	for range o.Callers {
		key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: bareID()}
		callers = append(callers, &committer{ledger: l, key: p.keys.Evidence(), subject: ledger.Subject{Key: key, Head: evidence.Genesis}, state: state, events: max(1, o.Events)})
	}
	return callers
}

// next names the new head where a cycle names its permit.
func (c *committer) next(ctx context.Context) (string, string, error) {
	s := &c.subject
	events, err := evidence.Seal(c.key, s.ID, s.Link(), time.Now(), numbered(s.Sequence, c.events))
	if err != nil {
		return "", "", err
	}
	result := c.ledger.Commit(ctx, ledger.Change{Writes: []ledger.Write{{Key: s.Key, Revision: s.Revision, Head: s.Head, State: c.state, Events: events}}})
	if err := result.Err(); err != nil {
		return "", "", err
	}
	s.Revision++
	last := &events[len(events)-1]
	s.Sequence, s.Head = last.Sequence, last.Hash
	return s.ID, s.Link().String(), nil
}

// auditCommits reads every chain back: gapless, linked, hashed as stated, and
// long enough to hold every acknowledged head.
func auditCommits(ctx context.Context, dir, database string, acks []acknowledged) (_ *audited, err error) {
	l, err := openLedger(ctx, dir, database, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	a := &auditing{}
	bySubject := map[string]map[string]bool{}
	for _, x := range acks {
		if bySubject[x.runID] == nil {
			bySubject[x.runID] = map[string]bool{}
		}
		bySubject[x.runID][x.permitID] = true
	}
	for id, heads := range bySubject {
		key := ledger.Key{Workspace: ledger.DefaultWorkspace, Kind: ledger.KindRun, ID: id}
		last := evidence.Link{Hash: evidence.Genesis}
		for {
			page, err := l.Events(ctx, key, last.Sequence, 1000)
			if err != nil {
				return nil, err
			}
			if len(page) == 0 {
				break
			}
			for i := range page {
				e := &page[i]
				digest, err := e.Digest()
				if err != nil {
					return nil, err
				}
				if e.Sequence != last.Sequence+1 || e.PreviousHash != last.Hash || e.Hash != fmt.Sprintf("%x", digest) {
					a.problem("event %s of %s does not verify", strconv.FormatInt(e.Sequence, 10), id)
				}
				last = evidence.Link{Sequence: e.Sequence, Hash: e.Hash}
				delete(heads, last.String())
			}
			a.events += len(page)
		}
		if len(heads) > 0 {
			a.problem("%d acknowledged commits of %s are not there", len(heads), id)
		}
	}
	if len(acks) == 0 {
		a.problem("nothing was acknowledged")
	}
	return &a.audited, nil
}
