package tools

import (
	"context"
	"errors"
	"fmt"

	"countersign/internal/contextturn/turn"
)

// Request is one call of a tool. A member that the caller left out is nil.
type Request struct {
	Tool          string
	Task          *string
	Query         *string
	Ref           *string
	InteractionID *string
	Detail        *string
	CaseID        *string
	Limit         *int64
	ExpectRefs    []string
}

// Answer is what a tool says. Its JSON is the tool's own members of the response.
type Answer interface {
	// Handed is the documents that the answer hands out, in its order: whether it
	// is a delivery, and of what. It is empty for a test.
	Handed() []Handed
}

// Handed names a document that was handed out and why it was chosen.
type Handed struct {
	Ref    string `json:"ref"`
	SHA256 string `json:"sha256"`
	Reason string `json:"reason"`
}

var (
	// ErrNotFound is the answer for a ref or a case that the Build does not have
	// for this profile.
	ErrNotFound = errors.New("tools: no such item")
	// ErrRequest is wrapped by errors about a request that no tool takes.
	ErrRequest = errors.New("tools: not a request")
	// ErrDamaged is wrapped when a document is not what the manifest says.
	ErrDamaged = errors.New("tools: a document is not what the manifest says")
	// ErrClosed is the answer of a Build that was closed.
	ErrClosed = errors.New("tools: the Build is closed")
	// ErrTooLong is the answer when a call would work longer than maxWork. The same
	// call may succeed on an idle machine.
	ErrTooLong = errors.New("tools: the call takes too long")
)

// Answer calls the tool of the request for a client of the profile. It is
// ErrRequest for report-gap, doctor and a why of an interaction, which a Build
// cannot answer.
func (b *Build) Answer(ctx context.Context, profile string, r Request) (Answer, error) {
	switch {
	case r.Tool == turn.Compass && r.Task != nil:
		return answer(b.Compass(ctx, profile, *r.Task))
	case r.Tool == turn.Resolve && r.Ref != nil:
		return answer(b.Resolve(ctx, profile, *r.Ref))
	case r.Tool == turn.Find && r.Query != nil:
		limit := int64(DefaultLimit)
		if r.Limit != nil {
			limit = *r.Limit
		}
		return answer(b.Find(ctx, profile, *r.Query, limit))
	case r.Tool == turn.Why && r.Ref != nil:
		return answer(b.Why(ctx, profile, *r.Ref))
	case r.Tool == turn.Test && r.CaseID != nil:
		return answer(b.TestCase(ctx, profile, *r.CaseID))
	case r.Tool == turn.Test && r.Task != nil:
		return answer(b.Test(ctx, profile, *r.Task, r.ExpectRefs))
	}
	return nil, fmt.Errorf("%w: %.40q without what it needs", ErrRequest, r.Tool)
}

// answer keeps a nil pointer from becoming an Answer.
func answer[A any, P interface {
	*A
	Answer
}](a P, err error) (Answer, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}
