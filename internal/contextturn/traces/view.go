package traces

import (
	"countersign/evidence"
	"countersign/internal/contextturn/turn"
	"countersign/internal/ledger"
)

// TurnView is a context turn as it is shown, with the state that it has now.
type TurnView struct {
	ID           string         `json:"id"`
	Project      string         `json:"project"`
	Client       string         `json:"client"`
	ClientName   string         `json:"clientName"`
	Profile      string         `json:"profile"`
	Environment  string         `json:"environment"`
	Via          string         `json:"via" enum:"http,supervision" doc:"Who opened it: the client over HTTP, or this control plane for an attempt of a run."`
	RunID        *string        `json:"runId" nullable:"true" doc:"Of a turn that supervision opened."`
	Status       string         `json:"status" enum:"OPEN,COMPLETED_WITH_CONTEXT_DELIVERY,COMPLETED_WITHOUT_CONTEXT_DELIVERY,EXPIRED_OR_INCOMPLETE,REPORTED_CANCELLED,REPORTED_FAILED"`
	Reported     *string        `json:"reported" nullable:"true" doc:"What the client reported: completed, cancelled or failed."`
	OpenedAt     evidence.Time  `json:"openedAt"`
	ExpiresAt    evidence.Time  `json:"expiresAt"`
	CompletedAt  *evidence.Time `json:"completedAt" nullable:"true"`
	ContextCalls int64          `json:"contextCalls"`
	Deliveries   int64          `json:"deliveries"`
	Observations int64          `json:"observations" doc:"Accepted reports of a hook before a tool was to run; nothing more."`
	LateReports  int64          `json:"lateReports" doc:"Completions that were reported after expiry; they change nothing."`
	Head         string         `json:"head" doc:"SEQ:HASH of the newest event of the turn's chain."`
}

// NewTurnView is the view of a turn as it stands now.
func NewTurnView(subject ledger.Subject, s *turn.State, name string, now evidence.Time) TurnView {
	v := TurnView{
		ID: s.ID, Project: s.Project, Client: s.Client, ClientName: name, Profile: s.Profile, Environment: s.Environment, Via: s.Via, RunID: s.Run,
		Status: s.At(now), OpenedAt: s.OpenedAt, ExpiresAt: s.ExpiresAt, CompletedAt: s.CompletedAt,
		ContextCalls: s.Calls, Deliveries: s.Deliveries, Observations: s.Observations, LateReports: s.LateReports, Head: subject.Link().String(),
	}
	if s.Reported != "" {
		v.Reported = &s.Reported
	}
	return v
}
