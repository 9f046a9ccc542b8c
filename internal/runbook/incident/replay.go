package incident

import (
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Replay folds a finished chain by the rules that decided it.
type Replay = machine.Replay[Session]

// NewReplay replays the chain of a session. A session remembers its newest execution only,
// because the ledger remembers them all; so does a replay of the chain.
func NewReplay() *Replay {
	m := memory{map[string]*Execution{}, map[string]bool{}}
	return machine.NewReplay(&definition, m.look)
}

// memory is what the ledger knows of a session beside its state.
type memory struct {
	executions map[string]*Execution // by key
	names      map[string]bool       // that were given
}

// look requires that every execution was answered from its record first (R-030 to R-033,
// G-25), that what was made has a name of its own, so that an approval that was used cannot
// come back under its name, and that the session had not ended (G-24).
func (m *memory) look(f *machine.Fold[Session], e machine.Event[Session]) {
	r := e.(*Receipt)
	f.Must(r.Subject != nil || f.Now() < f.State().CreatedAt.Add(SessionLife), "session-over", "a session ends 24 hours after it began")
	if r.Operation == Execute && r.Input.problem(Execute) == "" {
		m.lookUp(f, r)
	}
	if name, makes := r.made(); makes {
		f.Must(!m.names[name], "name-again", "what a decision makes has a name that nothing else has")
		m.names[name] = true
	}
	if x := r.Result.Execution; r.Event == EventExecuted && x != nil {
		m.executions[x.IdempotencyKey] = x
	}
}

func (m *memory) lookUp(f *machine.Fold[Session], r *Receipt) {
	record := m.executions[*r.Input.IdempotencyKey]
	exact := record != nil && record.Digest == *r.Input.ActionDigest && record.Version == *r.Input.ResourceVersion
	f.Must(exact == (r.Event == EventReplayed), "record-first", "an exact retry is answered from its record, and nothing else is")
	conflict := r.Result.ReasonCode != nil && *r.Result.ReasonCode == IdempotencyConflict
	f.Must((record != nil && !exact) == conflict, "record-conflict", "a key that has a record of another action is in conflict, and no other key is")
	if exact && r.Event == EventReplayed {
		x := r.Result.Execution
		f.Must(x != nil && string(canon.MustMarshal(record)) == string(canon.MustMarshal(x)), "replayed-record", "a replay tells the record as it was made")
	}
}
