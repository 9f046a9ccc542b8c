package incident

import (
	"countersign/internal/canon"
	"countersign/internal/machine"
)

// Replay folds a finished chain by the rules that decided it.
type Replay = machine.Replay[Session]

// NewReplay replays the chain of a session. A session remembers its newest execution only;
// a replay of the chain remembers them all, so that no receipt tells again what was never
// told, and no key is executed twice.
func NewReplay() *Replay {
	executions := map[string]*Execution{}
	return machine.NewReplay(&definition, func(f *machine.Fold[Session], e machine.Event[Session]) {
		r := e.(*Receipt)
		x := r.Result.Execution
		if x == nil {
			return
		}
		first := executions[x.IdempotencyKey]
		switch r.Event {
		case EventExecuted:
			f.Must(first == nil, "executed-twice", "a key has one execution")
			executions[x.IdempotencyKey] = x
		case EventReplayed:
			f.Must(first != nil && string(canon.MustMarshal(first)) == string(canon.MustMarshal(x)), "replayed-record", "a replay tells a record that an execution made")
		}
	})
}
